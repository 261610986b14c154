"""bass pull ORG/NAME and -m ORG/NAME: what is chosen, and where it lies; the hub's own package shares the cache."""
import importlib.util
import os
import subprocess
import sys

import pytest
from fake_hub import (  # noqa: F401 (fixtures)
    bass, cache, checkpoint, COMMIT, environment, git_hash,
    hub, model, ready_path, REPO, sha256, tree)

HAS_HUB_PACKAGE = importlib.util.find_spec("huggingface_hub") is not None


def test_the_only_gguf_file_is_fetched_and_run(bass, hub, cache):
    hub.files = {"README.md": b"hello", "sub/tiny-Q8_0.gguf": model(), "sub/mmproj-f16.gguf": b"sees pictures"}
    path = ready_path(bass("pull", "org/model"))
    digest = sha256(model())
    assert tree(cache) == {"refs/main": COMMIT.encode(), f"blobs/{digest}": model(),
                           f"snapshots/{COMMIT}/sub/tiny-Q8_0.gguf": f"../../../blobs/{digest}"}
    assert path == cache / "snapshots" / COMMIT / "sub/tiny-Q8_0.gguf"
    assert (cache.parent / ".locks" / REPO / f"{digest}.lock").exists()
    assert (cache.parent / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    hub.close()
    assert bass("info", "-m", "org/model", "--json").json()["path"] == str(path)
    assert bass("generate", "-m", "org/model:Q8_0", "-d", "org/model", "-p", "a", "--max-tokens", "2").code == 0


def test_nothing_is_fetched_twice(bass, hub, cache):
    hub.files = {"a.gguf": model()}
    first = bass("pull", "org/model")
    assert first.err.startswith("a.gguf: ") and first.err.count("\n") == 1 and "\x1b" not in first.err
    hub.commit = "d" * 40  # another commit with the same contents
    hub.log.clear()
    second = bass("pull", "org/model")
    assert second.err == "" and ready_path(second).parts[-2] == hub.commit
    assert hub.fetched() == []
    assert len(list((cache / "blobs").iterdir())) == 1


def test_several_gguf_files_need_a_choice(bass, hub):
    hub.files = {f"model-{kind}.gguf": model(i) for i, kind in enumerate(("Q4_K_M", "Q4_K_S", "IQ4_XS", "F16"))}
    done = bass("pull", "org/model")
    assert done.code == 2 and "say which as org/model:FILE" in done.err
    assert all(f"{name} ({len(data) / 1024:.1f} KiB)" in done.err for name, data in hub.files.items())
    assert ready_path(bass("pull", "org/model:q4_k_m")).name == "model-Q4_K_M.gguf"
    assert ready_path(bass("pull", "org/model:model-F16.gguf")).name == "model-F16.gguf"
    assert "that can be 2 files" in bass("info", "-m", "org/model").err
    assert bass("info", "-m", "org/model:Q4_K_M").code == 0
    done = bass("info", "-m", "org/model:IQ4_XS")
    assert done.code == 2 and "has no such file" in done.err
    done = bass("pull", "org/model:Q4_K")
    assert done.code == 2 and "has no such file" in done.err
    done = bass("pull", "org/model:Q4_K_X")
    assert done.code == 2 and "did you mean org/model:Q4_K_" in done.err


def test_all_parts_of_a_split_file_come(bass, hub, cache, tiny, tmp_path):
    from test_convert import split
    (tmp_path / "parts").mkdir()
    split(tiny, tmp_path / "parts")
    hub.files = {f"Q4/x-Q4_1-{p.name[5:]}": p.read_bytes() for p in (tmp_path / "parts").iterdir()}
    hub.files["Q5/x-Q5_1-00001-of-00002.gguf"] = b"incomplete"
    path = ready_path(bass("pull", "org/model:Q4_1"))
    assert path.name == "x-Q4_1-00001-of-00003.gguf" and len(list((cache / "blobs").iterdir())) == 3
    scores = [bass("score", "-m", m, "-p", "hello", "--json").json()["logprobs"] for m in ("org/model", tiny)]
    assert scores[0] == scores[1]
    done = bass("pull", "org/model:Q5_1")
    assert done.code == 2 and "part 2 of 2 is missing" in done.err
    (path.parent / "x-Q4_1-00002-of-00003.gguf").unlink()
    done = bass("info", "-m", "org/model")
    assert done.code == 2 and "part 2 of 3 is missing" in done.err and "run: bass pull org/model" in done.err


def test_a_checkpoint_comes_with_the_shards_of_its_index(bass, hub, cache):
    used, unused = checkpoint()
    hub.files = used | unused
    path = ready_path(bass("pull", "org/model"))
    assert path == cache / "snapshots" / COMMIT
    assert {name: (path / name).read_bytes() for name in os.listdir(path)} == used
    assert os.readlink(path / "config.json") == f"../../blobs/{git_hash(used['config.json'])}"
    assert os.readlink(path / "tokenizer.json") == f"../../blobs/{sha256(used['tokenizer.json'])}"
    assert bass("score", "-m", "org/model", "-p", "hello", "--json").code == 0
    (path / "model-00002-of-00002.safetensors").unlink()
    done = bass("score", "-m", "org/model", "-p", "hello")
    assert done.code == 2 and "model-00002-of-00002.safetensors, which it names, is missing" in done.err
    assert "run: bass pull org/model" in done.err
    assert bass("pull", "org/model").code == 0 and bass("score", "-m", "org/model", "-p", "hello").code == 0


def test_gguf_files_come_before_a_checkpoint(bass, hub):
    used, _ = checkpoint()
    hub.files = used | {"a.gguf": model()}
    assert ready_path(bass("pull", "org/model")).name == "a.gguf"
    assert ready_path(bass("pull", "org/model:safetensors")).name == COMMIT
    assert "is no GGUF file" in bass("pull", "org/model:config.json").err
    hub.files = {"pytorch_model.bin": b"x", "config.json": b"{}"}
    done = bass("pull", "org/model")
    assert done.code == 2 and "has no model.safetensors, only pytorch_model.bin" in done.err
    assert "AutoModelForCausalLM.from_pretrained(" in done.err


def test_revisions(bass, hub, cache):
    hub.files = {"a.gguf": model()}
    for arguments, ref in ((["org/model", "--revision", "v1"], "v1"), (["org/model@refs/pr/1:a.gguf"], "refs/pr/1")):
        ready_path(bass("pull", *arguments))
        assert (cache / "refs" / ref).read_text() == COMMIT
        assert bass("info", "-m", f"org/model@{ref}").code == 0
    assert bass("info", "-m", "org/model").code == 2, "main was not fetched"
    assert ready_path(bass("pull", "org/model", "--revision", COMMIT)).exists()
    assert not (cache / "refs" / COMMIT).exists() and bass("info", "-m", f"org/model@{COMMIT}").code == 0
    done = bass("pull", "org/model", "--revision", "v2")
    assert done.code == 2 and "has no revision (branch, tag or commit) of this name" in done.err
    assert "did you mean org/model@v1?" in done.err


def test_a_path_that_is_there_wins(bass, hub, tmp_path):
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "model").write_bytes(model())
    assert bass("info", "-m", "org/model", "--json").json()["path"] == "org/model"
    done = bass("info", "-m", "org/other")
    assert done.code == 2 and "there is no such file, and no such model in" in done.err
    assert "run: bass pull org/other" in done.err


def test_a_hub_that_names_only_files_is_asked_for_the_rest(bass, hub, cache):
    hub.files, hub.says_blobs = {"a.gguf": model(), "config.json": b"{}"}, False
    assert ready_path(bass("pull", "org/model")).resolve() == cache / "blobs" / sha256(model())
    assert [command for _, command, path, _ in hub.log if "/resolve/" in path] == ["HEAD", "GET"]


@pytest.mark.parametrize("variable, folder", [("HF_HUB_CACHE", "x"), ("HUGGINGFACE_HUB_CACHE", "x"), ("HF_HOME", "x/hub"),
                                              ("XDG_CACHE_HOME", "x/huggingface/hub")])
def test_where_the_cache_is(bass, hub, tmp_path, variable, folder):
    hub.files = {"a.gguf": model()}
    path = ready_path(bass("pull", "org/model", **{"HF_HOME": "", variable: str(tmp_path / "x")}))
    assert path == tmp_path / folder / REPO / "snapshots" / COMMIT / "a.gguf"


# Rights.

def test_the_token_goes_to_the_hub_only(bass, hub, tmp_path):
    hub.files, hub.token = {"a.gguf": model(), "README.md": b""}, "hf_secret"
    done = bass("pull", "org/model")
    assert done.code == 1 and "set HF_TOKEN" in done.err
    done = bass("pull", "org/model", HF_TOKEN="hf_wrong")
    assert done.code == 1 and "is HF_TOKEN right" in done.err and "hf_wrong" not in done.err
    (tmp_path / "hf").mkdir(exist_ok=True)
    (tmp_path / "hf" / "token").write_text("hf_secret\n")
    hub.log.clear()
    ready_path(bass("pull", "org/model"))
    sent = {is_cdn: {headers.get("Authorization") for c, _, _, headers in hub.log if c == is_cdn} for is_cdn in (0, 1)}
    assert sent == {0: {"Bearer hf_secret"}, 1: {None}}
    done = bass("pull", "org/model", HF_TOKEN="a\nb")
    assert done.code == 2 and "HF_TOKEN: holds characters that no token has" in done.err


def test_a_gated_model_says_where_its_licence_is(bass, hub):
    hub.gated = True
    done = bass("pull", "org/model")
    assert done.code == 1 and f"is gated: accept its licence at {hub.url}/org/model" in done.err


def test_offline_the_network_is_not_touched(bass, hub):
    hub.files = {"a.gguf": model()}
    done = bass("pull", "org/model", HF_HUB_OFFLINE="1")
    assert done.code == 1 and "HF_HUB_OFFLINE" in done.err and hub.log == []
    ready_path(bass("pull", "org/model"))
    hub.log.clear()
    assert ready_path(bass("pull", "org/model", HF_HUB_OFFLINE="yes")).exists() and hub.log == []


@pytest.mark.skipif(not HAS_HUB_PACKAGE, reason="needs the package huggingface_hub")
def test_the_python_package_and_we_use_the_same_cache(bass, hub, environment, tmp_path):
    def python(home, code):
        variables = {key: value for key, value in environment.items() if value}
        done = subprocess.run([sys.executable, "-c", "from huggingface_hub import *\n" + code], text=True, check=False,
                              capture_output=True, env={**os.environ, **variables, "HF_HOME": str(home)})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    used, _ = checkpoint()
    hub.files = used | {"sub/a.gguf": model()}
    ours, theirs = tmp_path / "hf", tmp_path / "theirs"
    for what in ("org/model", "org/model:safetensors"):
        ready_path(bass("pull", what))
    assert python(theirs, 'print(snapshot_download("org/model"))').startswith(str(theirs))
    trees = [tree(home / "hub" / REPO) for home in (ours, theirs)]
    trees[1] = {path: data for path, data in trees[1].items() if not path.startswith("trees/")}
    assert trees[0] == trees[1]
    snapshot = python(ours, 'print(snapshot_download("org/model", local_files_only=True))')
    assert snapshot == str(ours / "hub" / REPO / "snapshots" / COMMIT)
    assert python(ours, 'print(hf_hub_download("org/model", "sub/a.gguf", local_files_only=True))').startswith(snapshot)
    hub.log.clear()
    assert bass("info", "-m", "org/model", HF_HOME=str(theirs)).code == 0
    assert bass("score", "-m", "org/model:safetensors", "-p", "a", HF_HOME=str(theirs)).code == 0
    assert hub.log == []
    done = bass("pull", "org/model", HF_HOME=str(theirs))
    assert done.code == 0 and done.err == "" and hub.fetched() == []
