"""The program around the stages: how it is started, what ends it, where its output goes."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import TIMEOUT_S, TINY, environment

from bass_draft import command_line, process_settings

DRAFT = TINY / "draft_feature_f32.gguf"


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps({"prompt": "What is it?"}) + "\n")
    return path


def evaluation(tiny, prompts, *arguments):
    return ["eval", "-m", tiny, "-d", DRAFT, "--prompts", prompts, "--max-tokens", 4, "--device", "cpu", *arguments]


def slow_engine(bass, tmp_path, command):
    """An engine that takes a minute for one command, and the file that appears when that has begun."""
    script, begun = tmp_path / "slow_bass", tmp_path / "begun"
    script.write_text(f'#!/bin/sh\n[ "$1" = {command} ] && touch {begun} && exec sleep 60\nexec {bass} "$@"\n')
    script.chmod(0o755)
    return script, begun


def end_when(process, begun, number):
    """What the process says after a signal, sent once `begun` is there."""
    while process.poll() is None and not begun.exists():
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    return err


def test_modules_of_the_current_folder_are_not_run(bass, tiny, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "random.py").write_text("raise SystemExit('a stranger was run')\n")
    script = tmp_path / "bin" / "bass-draft"  # as pip makes it
    script.parent.mkdir()
    script.write_text("import sys\nfrom bass_draft.command_line import main\nsys.exit(main())\n")
    command = [sys.executable, script, "export", "-m", str(tiny), "--work", "none", "-o", "d.gguf"]
    done = subprocess.run(command, env=environment(bass), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "there is no checkpoint yet" in done.stderr, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_answered_with_a_sentence(bass, start, tiny, tmp_path, number):
    engine, begun = slow_engine(bass, tmp_path, "generate")
    process = start(engine, "generate", "-m", tiny, "--work", tmp_path / "w", "--tokens", 10)
    err = end_when(process, begun, number)
    assert process.returncode == 128 + number
    assert err.splitlines()[-1] == "stopped; the same command goes on where it was" and "Traceback" not in err, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_modules_are_imported_is_answered_too(tmp_path, number):
    """Some make another error of an exception."""
    begun = tmp_path / "begun"
    (tmp_path / "torch.py").write_text(f"""
import time
open({str(begun)!r}, "w").close()
try:
    time.sleep(60)
except BaseException as error:
    raise RuntimeError(error)
""")
    path = os.pathsep.join([str(tmp_path), environment("")["PYTHONPATH"]])
    command = [sys.executable, "-m", "bass_draft", "export", "-m", "x", "-o", "y.gguf"]
    process = subprocess.Popen(command, env={**environment(""), "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True)
    assert end_when(process, begun, number) == "stopped\n" and process.returncode == 128 + number


def test_nothing_that_takes_long_is_imported_before_signals_are_seen_to():
    heavy = "import sys, bass_draft.command_line; print({'numpy', 'gguf', 'jinja2', 'tqdm'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", heavy], env=environment(""), capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_signal_is_kept_while_the_process_starts_anew(monkeypatch):
    """glibc's settings are read at its start: until handlers are there again a signal waits."""
    masks = []
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "execv", lambda *_: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    process_settings.ensure_process_settings()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
    assert masks and masks[0] >= {signal.SIGINT, signal.SIGTERM}


def test_a_torch_that_cannot_be_loaded_is_a_sentence(monkeypatch, capsys):
    def damaged(_):
        raise OSError("libtorch.so: file too short")

    monkeypatch.setattr(importlib, "import_module", damaged)
    assert command_line.main(["export", "-m", "x", "-o", "y.gguf"]) == 2
    err = capsys.readouterr().err
    assert "PyTorch is missing or damaged (libtorch.so: file too short); install it with `pip install torch`" in err


def test_options_that_would_do_nothing_are_refused(tmp_path, capsys):
    for arguments, words in ((["generate", "--positions", "5"], "unrecognized arguments: --positions"),
                             (["train", "--tokens", "5"], "unrecognized arguments: --tokens"),
                             (["make", "-o", ""], "-o/--output: must name a file")):
        with pytest.raises(SystemExit) as ended:
            command_line.main([*arguments, "-m", str(tmp_path / "none.gguf")])
        assert ended.value.code == 2 and words in capsys.readouterr().err


def test_a_signal_during_a_measurement_leaves_no_temporary_files(bass, start, tiny, prompts, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    engine, begun = slow_engine(bass, tmp_path, "features")
    process = start(engine, *evaluation(tiny, prompts))
    err = end_when(process, begun, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM and err.splitlines()[-1] == "stopped", err
    assert not list(temporary.iterdir())


def test_where_a_report_goes(bass, run, tiny, prompts, tmp_path):
    pytest.importorskip("torch")
    report, link = tmp_path / "report.json", tmp_path / "link.json"
    report.write_text("old")
    link.symlink_to(report)
    done = run(bass, *evaluation(tiny, prompts, "-o", link))
    assert done.code == 0 and link.is_symlink() and "temperature_1" in json.loads(report.read_text()), done.err
    for out, words in ((prompts, "is the file that --prompts names"), (tmp_path / ("n" * 250), "File name too long")):
        engine, begun = slow_engine(bass, tmp_path, "generate")
        done = run(engine, *evaluation(tiny, prompts, "-o", out))
        assert done.code == 2 and words in done.err and not begun.exists(), done.err


def test_a_full_standard_output_is_a_sentence(bass, tiny, prompts):
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "bass_draft", *map(str, evaluation(tiny, prompts))]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=environment(bass), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "error: standard output: the disk is full" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_a_measurement_names_the_prompt_that_is_too_long(bass, run, tiny, prompts):
    pytest.importorskip("torch")
    prompts.write_text(json.dumps({"prompt": "x"}) + "\n\n" + json.dumps({"prompt": "word " * 2000}) + "\n")
    done = run(bass, *evaluation(tiny, prompts))
    assert done.code == 2 and f"{prompts}: prompt 2 ('word word" in done.err and "standard input" not in done.err, done.err


def test_a_measurement_without_the_chat_template(bass, run, tiny, prompts):
    """A prompt with its template has more rows behind the same answer's beginning, so the figures differ."""
    pytest.importorskip("torch")
    with_chat, without = (run(bass, *evaluation(tiny, prompts, *more)) for more in ([], ["--no-chat"]))
    prompts.write_text(json.dumps({"prompt": "What is it?", "chat": False}) + "\n")
    plain = run(bass, *evaluation(tiny, prompts))
    assert without.json() == plain.json() != with_chat.json()
