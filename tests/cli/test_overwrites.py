"""What a command reads is not what it writes, by whatever name."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import make_corpus as checkpoints  # noqa: E402

CONFIG = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 300}


@pytest.fixture
def files(tmp_path, tiny):
    shutil.copy(tiny, tmp_path / "m.gguf")
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "max_tokens": 2}\n')
    (tmp_path / "p.txt").write_text("a")
    (tmp_path / "t.jsonl").write_text('{"tokens": [1, 2, 3]}\n')
    (tmp_path / "c.json").write_text(json.dumps(CONFIG))
    os.symlink("m.gguf", tmp_path / "link.gguf")
    return tmp_path


@pytest.mark.parametrize("arguments, flag, name", [
    (["generate", "-m", "m.gguf", "-p", "a"], "--save", "m.gguf"),
    (["generate", "-m", "m.gguf", "-p", "a"], "--save", "link.gguf"),
    (["generate", "-m", "link.gguf", "-p", "a"], "--save", "./m.gguf"),
    (["generate", "-m", "smollm2", "-d", "m.gguf", "-p", "a"], "--save", "m.gguf"),
    (["generate", "-m", "m.gguf", "--prompts", "p.jsonl"], "--save", "p.jsonl"),
    (["generate", "-m", "m.gguf", "-f", "p.txt"], "--save", "p.txt"),
    (["features", "-m", "m.gguf", "--texts", "t.jsonl"], "-o", "m.gguf"),
    (["features", "-m", "m.gguf", "--texts", "t.jsonl"], "-o", "t.jsonl"),
    (["synth", "--config", "c.json"], "-o", "c.json"),
    (["synth", "--config", "c.json", "--vocab-from", "m.gguf"], "-o", "m.gguf"),
    (["convert", "m.gguf"], "-o", "m.gguf"),
    (["batch", "-m", "m.gguf", "-i", "p.jsonl"], "-o", "p.jsonl"),
])
def test_what_is_read_is_not_replaced(run, files, arguments, flag, name):
    before = (files / name).read_bytes()
    done = run(*arguments, flag, name)
    assert done.code == 2 and f"{flag} {name}: is " in done.err, done.err
    assert (files / name).read_bytes() == before


def test_nor_is_standard_input(binary, files):
    with open(files / "t.jsonl", "rb") as texts:
        done = subprocess.run([binary, "features", "-m", "m.gguf", "-o", "t.jsonl"], stdin=texts, stderr=subprocess.PIPE, cwd=files,
                              check=False)
    assert done.returncode == 2 and b"-o t.jsonl: is read, too" in done.stderr
    assert (files / "t.jsonl").read_text() == '{"tokens": [1, 2, 3]}\n'


def test_other_files_are_replaced(run, files):
    (files / "old.json").write_text("old")
    done = run("generate", "-m", "m.gguf", "--prompts", "p.jsonl", "--save", "old.json")
    assert done.code == 0, done.err
    assert json.loads((files / "old.json").read_text())["prompts"]


def test_a_result_may_lie_beside_a_checkpoint(run, tmp_path):
    checkpoints.write_checkpoint(tmp_path)
    asked = ("generate", "-m", ".", "-p", "a", "--max-tokens", "1", "--context", "8", "--save")
    for _ in range(2):  # also where it was written before
        done = run(*asked, "out.json")
        assert done.code == 0, done.err
    for part in ("tokenizer.json", "config.json", "model.safetensors"):
        before = (tmp_path / part).read_bytes()
        refused = run(*asked, part)
        assert refused.code == 2 and f"--save {part}: is a file of the model that is read" in refused.err
        assert (tmp_path / part).read_bytes() == before
