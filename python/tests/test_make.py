"""A tiny main model through the whole of `make`, and what the engine makes of the draft."""

import json

import gguf
import pytest

torch = pytest.importorskip("torch")

from conftest import TINY  # noqa: E402

from bass_draft.command_line import make_parser  # noqa: E402
from bass_draft.engine import Engine  # noqa: E402
from bass_draft.errors import UserError  # noqa: E402
from bass_draft.files import locked  # noqa: E402
from bass_draft.make import make as make_here  # noqa: E402
from bass_draft.stages import Stages  # noqa: E402

# Of a draft that was not trained .06 to .09 is accepted, of a trained one .14 to .23, here and in the engine. The main
# model has random weights: there is little to be learned from so little text.
THRESHOLD = 0.11
PROMPTS = [f"What is {i}?" for i in range(30)]
OPTIONS = ["--no-chat", "--shard-prompts", 96, "--max-tokens", 32, "--draft-vocab", 200, "--batch-rows", 128,
           "--learning-rate", 3e-3, "--seed", 3, "--device", "cpu"]


def make(run, bass, tiny, out, *arguments):
    done = run(bass, "make", "-m", tiny, "-o", out, *OPTIONS, *arguments)
    assert done.code == 0, done.err
    return done


def acceptance(path):
    field = gguf.GGUFReader(path).get_field("bass-draft.training.acceptance")
    return json.loads(field.contents())["all"]["temperature_1"]


def test_a_trained_draft_is_accepted_and_an_untrained_one_is_not(bass, run, tiny, tmp_path):
    draft = tmp_path / "draft.gguf"
    make(run, bass, tiny, draft, "--tokens", 6000, "--positions", 20000)
    trained = acceptance(draft)
    assert len(trained) == 4 and min(trained) > THRESHOLD
    untrained = tmp_path / "untrained.gguf"
    make(run, bass, tiny, untrained, "--tokens", 6000, "--positions", 1, "--work", tmp_path / "other.work")
    assert max(acceptance(untrained)) < THRESHOLD
    measured = measure(run, bass, tiny, draft, tmp_path)
    assert measured > THRESHOLD
    check_engine(bass, tiny, draft, measured)


def measure(run, bass, tiny, draft, tmp_path):
    """What `eval` says of the first drafted token at temperature 1."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": prompt, "task": task, "chat": False}) + "\n"
                               for prompt, task in zip(PROMPTS, ("one", "two") * len(PROMPTS))))
    done = run(bass, "eval", "-m", tiny, "-d", draft, "--prompts", prompts, "--max-tokens", 40, "--steps", 3)
    assert done.code == 0, done.err
    report = done.json()
    for kind in ("temperature_1", "temperature_0"):
        assert set(report[kind]) == {"all", "one", "two"}
        assert len(report[kind]["all"]["acceptance"]) == 3 and report[kind]["all"]["rows"] > 1000
    return report["temperature_1"]["all"]["acceptance"][0]


def check_engine(bass, tiny, draft, measured):
    """The engine accepts as much as was measured here, and with its guesses the text is the same as without."""
    lines = [{"prompt": prompt, "temperature": 1.0, "seed": 1000 + i, "max_tokens": 40}
             for i, prompt in enumerate(PROMPTS)]
    engine = Engine(str(bass), str(tiny))
    generate = lambda length, rule: engine.generate(
        lines, 8, str(draft), ["--drafter", "model", "--draft-length", length, "--verify", rule])
    speculation = generate("fixed:1", "rejection")["speculation"]
    assert speculation["drafted"] > 500
    assert speculation["acceptance_rate"] == pytest.approx(measured, abs=0.06)
    ids = lambda result: [prompt["choices"][0]["token_ids"] for prompt in result["prompts"]]
    assert ids(generate("fixed:4", "match")) == ids(engine.generate(lines, 8))


def test_make_goes_on_where_it_was(bass, run, tiny, tmp_path):
    """With all layers of the main model and two thirds of its vocabulary: a draft that is often right."""
    draft = tmp_path / "draft.gguf"
    shape = ["--shape", "llama-shallow", "--layers", 2]
    make(run, bass, tiny, draft, "--tokens", 600, "--positions", 300, *shape)
    before = draft.read_bytes()
    make(run, bass, tiny, draft, "--tokens", 600, "--positions", 300, *shape)
    assert draft.read_bytes() == before
    measured = measure(run, bass, tiny, draft, tmp_path)
    assert measured > 0.6
    check_engine(bass, tiny, draft, measured)
    other = run(bass, "export", "-m", TINY / "tiny_mha_untied_f32.gguf", "-o", tmp_path / "o.gguf", "--work",
                draft.with_suffix(".work"))
    assert other.code == 2 and "was trained for another model" in other.err, other.err
    warm = tmp_path / "warm.gguf"
    grown = ["--tokens", 600, "--positions", 300, "--init", draft, "--type", "q4_0"]
    make(run, bass, tiny, warm, *grown, "--layers", 3)
    told = lambda key: gguf.GGUFReader(warm).get_field(f"bass-draft.{key}").contents()
    assert told("block_count") == 3 and "rounded to q4_0" in told("training.loss")
    assert told("training.data").count("tokens of the main model's own text") == 2, "its own, and the earlier draft's"
    check_engine(bass, tiny, warm, measure(run, bass, tiny, warm, tmp_path))
    for other, message in (([], "was begun with another shape"), (["--width", 96], "--width: that of the draft to begin with"),
                           (["--taps", "1"], "--taps: that of"), (["--shape", "feature"], "--shape: that of"),
                           (["--layers", 1], "--layers 1: the draft to begin with has 2")):
        done = run(bass, "make", "-m", tiny, "-o", warm, *OPTIONS, *grown, *other)
        assert done.code == 2 and message in done.err, done.err
    check_types(bass, run, tiny, warm, init=draft)
    check_without_settings(bass, run, tiny, warm)


def check_types(bass, run, tiny, draft, init):
    """Of a training for q4_0: `export` makes the same file, and says what another type means; such a training cannot become
    another one."""
    again, wide = draft.with_name("again.gguf"), draft.with_name("wide.gguf")
    work = ["--work", draft.with_suffix(".work")]
    done = run(bass, "export", "-m", tiny, "-o", again, *work)
    assert done.code == 0 and again.read_bytes() == draft.read_bytes(), done.err
    done = run(bass, "export", "-m", tiny, "-o", wide, *work, "--type", "q8_0")
    assert done.code == 0 and "the training was for --type q4_0" in done.err and wide.stat().st_size > again.stat().st_size
    done = run(bass, "train", "-m", tiny, *work, "--positions", 600, "--shape", "llama-shallow", "--layers", 3, "--type",
               "q8_0", "--seed", 3, "--batch-rows", 128, "--draft-vocab", 200, "--init", init)
    assert done.code == 2 and "was begun for --type q4_0; give the same again" in done.err, done.err


def check_without_settings(bass, run, tiny, draft):
    """What was trained stands in the checkpoint. An older one does not say it."""
    again, work = draft.with_name("again.gguf"), draft.with_suffix(".work")
    settings = work / "train" / "settings.json"
    for content in ("{}", "[]"):
        settings.write_text(content)
        done = run(bass, "export", "-m", tiny, "-o", again, "--work", work)
        assert done.code == 0 and again.read_bytes() == draft.read_bytes(), done.err
    older = torch.load(work / "train" / "checkpoint.pt")
    older["state"] = json.dumps({**json.loads(older["state"]), "shape": None})
    torch.save(older, work / "train" / "checkpoint.pt")
    for content in ("{}", "[]", None):
        settings.write_text(content) if content else settings.unlink()
        done = run(bass, "export", "-m", tiny, "-o", again, "--work", work)
        assert done.code == 2 and "settings.json: does not say what was trained; run `bass-draft train`" in done.err, done.err


def options_of(bass, tiny, work, out, *arguments):
    return make_parser().parse_args(["make", "--bass", str(bass), "-m", str(tiny), "-o", str(out), "--work", str(work),
                                     "--device", "cpu", *map(str, arguments)])


def test_one_lock_is_over_all_of_it(bass, tiny, tmp_path, monkeypatch):
    work, seen = tmp_path / "w", []

    def stage(name):
        def call(*_):
            with pytest.raises(UserError, match="another bass-draft works there"), locked(work):
                pass
            seen.append(name)
            return 1

        return call

    for name in ("generate", "train", "export"):
        monkeypatch.setattr(Stages, name, stage(name))
    make_here(options_of(bass, tiny, work, tmp_path / "d.gguf", "--tokens", 1))
    assert seen == ["generate", "train", "export"]


def test_who_is_refused_by_the_lock_changes_nothing(bass, run, tiny, tmp_path):
    work = tmp_path / "w"
    for part in ("train", "text"):
        (work / part).mkdir(parents=True)
        (work / part / "settings.json").write_text('{"seed": 5}')
    with locked(work):
        done = run(bass, "make", "-m", tiny, "-o", tmp_path / "d.gguf", "--work", work, "--tokens", 10)
    assert done.code == 2 and "another bass-draft works there" in done.err, done.err
    assert {path.read_text() for path in work.glob("*/settings.json")} == {'{"seed": 5}'}


def test_positions_alone_bound_the_text_too(bass, tiny, tmp_path, monkeypatch):
    budgets = []
    monkeypatch.setattr(Stages, "export", lambda *_: None)
    for name in ("generate", "train"):
        monkeypatch.setattr(Stages, name, lambda _, budget: budgets.append((budget.seconds, budget.count)) or 50)
    for arguments in (["--positions", 402], ["--tokens", 30], []):
        make_here(options_of(bass, tiny, tmp_path / "w", tmp_path / "d.gguf", *arguments))
    assert budgets[:4] == [(None, 101), (None, 402), (None, 30), (None, 200)]
    assert budgets[4:] == [(pytest.approx(0.3 * 7200), None), (pytest.approx(0.7 * 7200), None)]
    with pytest.raises(UserError, match="--text-share: is a part of the time; give --hours too"):
        make_here(options_of(bass, tiny, tmp_path / "w", tmp_path / "d.gguf", "--tokens", 1, "--text-share", 0.5))


def test_an_output_that_would_destroy_something_is_refused(bass, tiny, tmp_path):
    """And what is refused leaves nothing."""
    model, prompts, bad = tmp_path / "model.gguf", tmp_path / "prompts.jsonl", tmp_path / "bad.jsonl"
    model.write_bytes(tiny.read_bytes())
    prompts.write_text('{"prompt": "x"}')
    bad.write_text("bad")
    init = tmp_path / "init.gguf"
    init.write_bytes((TINY / "draft_feature_f32.gguf").read_bytes())
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    work = tmp_path / "w"
    for out, arguments, words in (
            (model, [], "is the file that -m names"), (prompts, ["--prompts", prompts], "is the file that --prompts names"),
            (init, ["--with-draft", init], "is the file that --with-draft names"),
            (init, ["--init", init], "is the file that --init names"), (prompts, [], "is there already and is no draft"),
            (tiny, [], "is the file that -m names|is there already and is no draft"),
            (work, [], "is the work folder, or holds it"), (tmp_path / ("n" * 250), [], "File name too long"),
            (tmp_path / "d.gguf", ["--prompts", bad], "bad.jsonl:1: not a JSON object")):
        with pytest.raises(UserError, match=words):
            make_here(options_of(bass, model, work, out, "--tokens", 1, *arguments))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    Stages(options_of(bass, model, work, init)).check(init)  # a draft may take the place of one


def test_errors(bass, run, tiny, tmp_path):
    done = run(bass, "export", "-m", tiny, "-o", tmp_path / "d.gguf", "--work", tmp_path / "w")
    assert done.code == 2 and "there is no checkpoint yet" in done.err
    done = run(bass, "eval", "-m", tiny, "-d", tiny, "--prompts", tmp_path / "none")
    assert done.code == 2 and "is no draft of this tool" in done.err
    for arguments, words in [(["--width", 100], "--width 100: must be a multiple of 32"),
                             (["--taps", 40], "--taps: the main model has"), (["--draft-vocab", 0], "--draft-vocab"),
                             (["--init", tiny], "is no draft of this tool"), (["--seed", -1], "--seed: must be from 0"),
                             (["--learning-rate", -1], "--learning-rate: must be above 0"),
                             (["--cache-gib", "nan"], "--cache-gib"), (["-o", tmp_path], "is a folder; name a file"),
                             (["-o", tiny / "d.gguf"], "is no folder")]:
        work = tmp_path / "early.work"
        done = run(bass, "make", "-m", tiny, "-o", tmp_path / "e.gguf", "--tokens", 50, "--work", work, *arguments)
        assert done.code == 2 and words in done.err and "Traceback" not in done.err, (words, done.err)
        assert not list(work.glob("text/*.jsonl")), f"{arguments} was found when the text was made"
    done = run(bass, "make", "-m", tiny, "-o", tmp_path / "d.gguf", "--device", "cuda", "--tokens", 50, *OPTIONS[:5])
    assert done.code == 0 or (done.code == 2 and "finds no CUDA device here; use --device cpu" in done.err), done.err
