"""The draft that comes with a model: used without being named, never in the way."""
import json
import os
import pathlib
import shutil
import subprocess

import gguf
import numpy
import pytest

NAME = "smollm2-135m-draft.gguf"
MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
N_LAYERS, WIDTH, MAIN_WIDTH, N_VOCAB = 1, 32, 576, 64
ACCEPTANCE = {"all": {"temperature_1": [0.25, 0.125], "temperature_0": [0.5, 0.375], "tokens_per_round_1": 1.28,
                      "tokens_per_round_0": 1.69, "rows": 100}}


def write_draft(path, fingerprint):
    """An untrained one that reads the embedding only; valid for SmolLM2-135M if the fingerprint is."""
    numbers = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "bass-draft")
    for key, value in {"block_count": N_LAYERS, "embedding_length": WIDTH, "feed_forward_length": 64,
                       "attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 16,
                       "rope.dimension_count": 16, "context_length": 8192, "main.embedding_length": MAIN_WIDTH,
                       "main.vocab_size": 49152}.items():
        writer.add_uint32(f"bass-draft.{key}", value)
    writer.add_float32("bass-draft.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("bass-draft.rope.freq_base", 1e5)
    writer.add_array("bass-draft.vocabulary", list(range(200, 200 + N_VOCAB)))
    writer.add_string("bass-draft.main.fingerprint", fingerprint)
    writer.add_string("bass-draft.main.name", "SmolLM2")
    writer.add_string("bass-draft.training.data", "no text at all")
    writer.add_string("bass-draft.training.acceptance", json.dumps(ACCEPTANCE))
    matrices = {"draft.input": (WIDTH, MAIN_WIDTH), "blk.0.attn_q": (WIDTH, WIDTH), "blk.0.attn_k": (16, WIDTH),
                "blk.0.attn_v": (16, WIDTH), "blk.0.attn_output": (WIDTH, WIDTH), "blk.0.ffn_gate": (64, WIDTH),
                "blk.0.ffn_up": (64, WIDTH), "blk.0.ffn_down": (WIDTH, 64), "output": (N_VOCAB, WIDTH)}
    for name, shape in matrices.items():
        writer.add_tensor(f"{name}.weight", numbers.standard_normal(shape).astype(numpy.float32) / shape[1] ** 0.5)
    norms = {"draft.embed_norm": MAIN_WIDTH, "blk.0.attn_norm": WIDTH, "blk.0.ffn_norm": WIDTH, "output_norm": WIDTH}
    for name, n in norms.items():
        writer.add_tensor(f"{name}.weight", numpy.ones(n, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="session")
def cache(smollm2, tmp_path_factory):
    """A cache folder in which `bass pull smollm2` has been."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / "bass").mkdir()
    (folder / "bass" / "SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(os.path.abspath(smollm2))
    return folder


@pytest.fixture(scope="session")
def standin(binary, smollm2, tmp_path_factory):
    """A draft for the default model that does not depend on the one that is shipped."""
    done = subprocess.run([binary, "info", "-m", smollm2, "--json"], capture_output=True, check=True)
    path = tmp_path_factory.mktemp("standin") / NAME
    write_draft(path, json.loads(done.stdout)["fingerprint"])
    return path


@pytest.fixture
def models(standin, tmp_path):
    """A folder for BASS_MODELS with that draft."""
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copyfile(standin, folder / NAME)
    return folder


@pytest.fixture
def smol(run, cache, models):
    """smol(command, arguments...): runs it with -m smollm2 and that folder."""
    return lambda command, *arguments, **options: run(
        *command.split(), "-m", "smollm2", *arguments, env={"XDG_CACHE_HOME": str(cache), "BASS_MODELS": str(models)}, **options)


GREEDY = ["-p", "def fibonacci(n):", "--max-tokens", "12", "--temperature", "0", "--json"]


def answer(done):
    assert done.code == 0, done.err
    return done.json()


def damage(path, how):
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif how == "text":
        path.write_text("no draft")
    else:
        path.unlink()
        write_draft(path, "0" * 64)


@pytest.mark.parametrize("options", [[], ["--drafter", "auto"], ["--drafter", "model"]])
def test_it_is_used_and_the_text_stays(smol, models, options):
    done = smol("generate", *GREEDY, "--draft-length", "fixed:2", "-n", "2", *options)
    drafted, plain = answer(done), answer(smol("generate", *GREEDY, "-n", "2", "--drafter", "off"))
    assert "warning" not in done.err
    assert drafted["draft"] == str(models / NAME) and drafted["speculation"]["drafted"] > 0
    assert plain["draft"] is None
    assert drafted["prompts"] == plain["prompts"]


@pytest.mark.parametrize("drafter", ["ngram", "off"])
def test_other_drafters_do_not_read_it(smol, models, drafter):
    damage(models / NAME, "text")
    done = smol("generate", *GREEDY, "--drafter", drafter)
    assert answer(done)["draft"] is None and "warning" not in done.err


def test_the_report_and_the_explanation_name_it(smol, models):
    done = smol("generate", "-p", "a", "--max-tokens", "4", "--explain-speculation")
    assert f"draft model     {models / NAME}\n" in done.err and f"draft           {models / NAME}" in done.err


def test_a_draft_that_is_named_is_taken_instead(smol, models, standin):
    damage(models / NAME, "text")
    done = smol("generate", *GREEDY, "-d", standin)
    assert answer(done)["draft"] == str(standin) and "warning" not in done.err


@pytest.mark.parametrize("how, word", [("cut", NAME), ("text", "GGUF"), ("other", "made for")])
def test_one_that_cannot_be_used_is_a_warning(smol, models, how, word):
    damage(models / NAME, how)
    done = smol("generate", *GREEDY)
    assert answer(done)["draft"] is None
    assert done.err.count("warning: the draft that comes with smollm2 is not used: ") == 1 and word in done.err
    named = smol("generate", *GREEDY, "-d", models / NAME)
    assert named.code == 2 and word in named.err and "warning" not in named.err
    wanted = smol("generate", *GREEDY, "--drafter", "model")
    assert wanted.code == 2 and "warning" in wanted.err and "needs a draft model" in wanted.err
    info = smol("info", "--json").json()["draft"]
    assert info["path"] == str(models / NAME) and ("problem" in info)
    assert "draft       not used: " in smol("info").out


def test_an_error_that_is_not_the_drafts_is_told_once(smol):
    done = smol("generate", *GREEDY, "--context", "100000")
    assert done.code == 2 and "--context" in done.err and "warning" not in done.err


def test_a_path_gets_what_it_is_told(run, cache, models):
    path = cache / "bass" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    env = {"XDG_CACHE_HOME": str(cache), "BASS_MODELS": str(models)}
    assert answer(run("generate", "-m", path, *GREEDY, env=env))["draft"] is None
    assert "draft" not in run("info", "-m", path, "--json", env=env).json()


def test_chat_uses_it(smol, models):
    damage(models / NAME, "other")
    done = smol("chat", "--temperature", "0", "--max-tokens", "4", stdin=b"Hello\n")
    assert done.code == 0 and done.out.strip() and "warning: the draft that comes with smollm2" in done.err


def test_a_measurement_is_of_regular_decoding_unless_a_drafter_is_named(smol, models):
    size = ["--batch", "1", "--prompt-tokens", "8", "--generate-tokens", "4", "--json"]
    modes = lambda done: [json.loads(line)["mode"] for line in done.out.splitlines()]
    assert modes(smol("bench decode", *size, "--drafter", "model")) == ["regular", "speculative"]
    assert modes(smol("bench decode", *size, "--drafter", "auto")) == ["regular", "speculative"]
    damage(models / NAME, "text")
    for options in ([], ["--drafter", "off"]):
        done = smol("bench decode", *size, *options)
        assert modes(done) == ["regular"] and "warning" not in done.err


def test_info_tells_of_it(smol, run, models):
    info = smol("info", "--json").json()
    draft = info["draft"]
    assert (draft["path"], draft["main_model"], draft["main_fingerprint"]) == (str(models / NAME), "SmolLM2", info["fingerprint"])
    assert draft["data"] == "no text at all" and draft["acceptance"] == ACCEPTANCE and "problem" not in draft
    assert run("info", "-m", models / NAME, "--json").json()["draft"] == draft
    for text in (smol("info").out, run("info", "-m", models / NAME).out):
        assert "made for     SmolLM2" in text and "no text at all" in text
        assert " ".join(next(line for line in text.splitlines() if line.startswith("    all")).split()) == \
            "all 0.25 0.12 (1.28) 0.50 0.38 (1.69)"
    assert f"draft       {models / NAME}\n" in smol("info").out


@pytest.mark.parametrize("acceptance", ["no JSON", "[1, 2]", '{"all": 3}', '{"all": {"temperature_1": ["x"]}}', "\u001b[2J"])
def test_info_prints_any_acceptance(run, models, acceptance):
    reader = (models / NAME).read_bytes()
    old = json.dumps(ACCEPTANCE).encode()
    assert reader.count(old) == 1
    (models / NAME).write_bytes(reader.replace(old, acceptance.encode().ljust(len(old))))
    done = run("info", "-m", models / NAME)
    assert done.code == 0 and "acceptance" in done.out and "\u001b" not in done.out


@pytest.fixture(scope="session")
def prefix(binary, tmp_path_factory):
    """The program as it is installed, with the stand-in's name free."""
    script = pathlib.Path(binary).parent / "src" / "cli" / "cmake_install.cmake"
    if not script.is_file():
        pytest.skip(f"{binary} lies in no build folder")
    folder = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={folder}", "-P", script], check=True, capture_output=True)
    return folder


def test_an_installed_program_finds_what_is_installed(cache, models, standin, prefix, tmp_path):
    installed = prefix / "share" / "bass" / "models"
    assert sorted(path.name for path in installed.iterdir()) == sorted(path.name for path in MODELS.iterdir() if path.suffix in (".gguf", ".md"))
    environment = {name: value for name, value in os.environ.items() if name != "BASS_MODELS"}
    environment["XDG_CACHE_HOME"] = str(cache)

    def generate(*options, **variables):
        return subprocess.run([prefix / "bin" / "bass", "generate", "-m", "smollm2", *GREEDY, *options], cwd=tmp_path,
                              env={**environment, **variables}, capture_output=True, text=True, timeout=300, check=False)

    shutil.copyfile(standin, installed / NAME)
    draft_of = lambda done: json.loads(done.stdout)["draft"]
    assert draft_of(generate()) == str(installed / NAME)
    assert draft_of(generate(BASS_MODELS=str(models))) == str(models / NAME)
    found = generate(BASS_MODELS=str(tmp_path))
    assert draft_of(found) == str(installed / NAME) and "was not found" not in found.stderr
    (installed / NAME).unlink()
    without = generate()
    assert draft_of(without) is None and "warning" not in without.stderr
    assert f"{NAME}, was not found in " in without.stderr and str(installed) in without.stderr
    for unasked in (["--drafter", "ngram"], ["--drafter", "off"], ["--draft-length", "off"], ["--quiet"], ["-d", standin]):
        assert "was not found" not in generate(*unasked).stderr
    insisting = generate("--drafter", "model")
    assert insisting.returncode == 2 and "n-grams" not in insisting.stderr
    info = subprocess.run([prefix / "bin" / "bass", "info", "-m", "smollm2"], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, check=True)
    assert "draft       none" in info.stdout


@pytest.mark.skipif(not (MODELS / NAME).is_file(), reason="a checkout without the draft")
def test_what_is_shipped_fits_its_model(run, cache):
    """As it lies in the tree: small, with a card, and made for the model that it comes with."""
    assert (MODELS / NAME).stat().st_size <= 12_000_000
    assert (MODELS / NAME).with_suffix(".md").is_file()
    env = {"XDG_CACHE_HOME": str(cache), "BASS_MODELS": str(MODELS)}
    info = run("info", "-m", "smollm2", "--json", env=env).json()
    assert "problem" not in info["draft"] and info["draft"]["main_fingerprint"] == info["fingerprint"]
    done = run("generate", "-m", "smollm2", *GREEDY, "--drafter", "model", env=env)
    assert answer(done)["draft"] == str(MODELS / NAME) and "warning" not in done.err
