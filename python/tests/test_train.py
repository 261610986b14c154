"""Training: what a kill leaves, what signals do, what goes on where."""

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

from conftest import environment  # noqa: E402

from bass_draft.budget import Budget  # noqa: E402
from bass_draft.checkpoint import read_checkpoint  # noqa: E402
from bass_draft.command_line import make_parser  # noqa: E402
from bass_draft.errors import Interrupted, UserError  # noqa: E402
from bass_draft.stages import Stages  # noqa: E402
from bass_draft.train import Trainer  # noqa: E402

TEXT = ["--shard-prompts", 12, "--max-tokens", 16, "--no-chat"]
TRAIN = ["--batch-rows", 64, "--draft-vocab", 100, "--unroll", 3, "--device", "cpu"]


@pytest.fixture(scope="module")
def text(bass, tiny, tmp_path_factory):
    """A folder with two shards of text."""
    folder = tmp_path_factory.mktemp("text")
    subprocess.run([sys.executable, "-m", "bass_draft", "generate", "-m", tiny, "--work", folder, "--tokens", "300",
                    *map(str, TEXT)], env=environment(bass), check=True)
    return folder


@pytest.fixture
def work(text, tmp_path):
    return shutil.copytree(text, tmp_path / "w")


def train(work, tiny, *arguments):
    return ["train", "-m", tiny, "--work", work, *TRAIN, *arguments]


def stages_of(bass, work, tiny, *arguments):
    """The same in this process."""
    return Stages(make_parser().parse_args([*map(str, train(work, tiny, *arguments)), "--bass", str(bass)]))


def wait_for_checkpoint(work, process, after=0.0):
    path = work / "train" / "checkpoint.pt"
    while process.poll() is None and not (path.exists() and path.stat().st_mtime > after):
        time.sleep(0.02)
    return path.stat().st_mtime


def test_killed_it_goes_on_from_the_checkpoint(bass, run, start, work, tiny):
    arguments = train(work, tiny, "--positions", 2500, "--checkpoint-minutes", 0.002)
    process = start(bass, *arguments)
    first = wait_for_checkpoint(work, process)
    wait_for_checkpoint(work, process, first)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    killed = read_checkpoint(work / "train")["state"]
    assert 0 < killed.n_positions < 2500 and not killed.is_done
    assert run(bass, *arguments).code == 0
    ended = read_checkpoint(work / "train")["state"]
    assert ended.is_done and ended.n_positions >= 2500 and ended.seconds > killed.seconds
    assert ended.n_updates > killed.n_updates
    # Nothing is left to do.
    assert run(bass, *arguments).code == 0
    assert read_checkpoint(work / "train")["state"].n_updates == ended.n_updates


def test_interrupted_and_resumed_it_ends_with_the_same_weights(bass, run, start, work, tiny, tmp_path):
    """SIGTERM between two updates: the order of batches and the optimizer's state come from the checkpoint."""
    arguments = train(work, tiny, "--positions", 3000)
    assert run(bass, *arguments).code == 0
    expected = read_checkpoint(work / "train")
    (work / "train").rename(tmp_path / "first")
    process = start(bass, *arguments, "--checkpoint-minutes", 0.002)
    wait_for_checkpoint(work, process)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert not read_checkpoint(work / "train")["state"].is_done
    assert run(bass, *arguments).code == 0
    found = read_checkpoint(work / "train")
    assert found["state"].n_updates == expected["state"].n_updates
    for name, values in expected["model"].items():
        assert torch.allclose(values, found["model"][name], atol=1e-6), name


def test_a_signal_does_not_wait_for_features(bass, start, work, tiny, tmp_path):
    """The second shard's features take a minute here."""
    slow = tmp_path / "bass"
    slow.write_text(f"""#!/bin/sh
if [ "$1" = features ]; then
  [ -e {tmp_path}/first ] && touch {tmp_path}/second && exec sleep 60
  touch {tmp_path}/first
fi
exec {bass} "$@"
""")
    slow.chmod(0o755)
    process = start(slow, *train(work, tiny, "--positions", 100000))
    while process.poll() is None and not (tmp_path / "second").exists():
        time.sleep(0.02)
    sent = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM and time.monotonic() - sent < 20
    assert read_checkpoint(work / "train")["state"].n_positions > 0


def with_signal(method):
    def call(*arguments):
        result = method(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)
        return result

    return call


@pytest.mark.parametrize("method, is_done", [("_timed_step", False), ("_report", True)])
def test_a_signal_at_the_very_end_is_not_forgotten(bass, work, tiny, monkeypatch, method, is_done):
    """In the last update, and in the measurement behind it: what was trained is kept, and nothing comes after it."""
    monkeypatch.setattr(Trainer, method, with_signal(getattr(Trainer, method)))
    with pytest.raises(Interrupted):
        stages_of(bass, work, tiny).train(Budget(None, 1, "positions"))
    state = read_checkpoint(work / "train")["state"]
    assert state.n_updates == 1 and state.is_done == is_done
    monkeypatch.undo()
    stages_of(bass, work, tiny).train(Budget(None, 1, "positions"))
    state = read_checkpoint(work / "train")["state"]
    assert state.n_updates == 1 and state.is_done
    for line in (work / "train" / "log.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_killed_in_the_last_measurement_it_keeps_what_it_has_trained(bass, work, tiny, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_report", killed)
    with pytest.raises(KeyboardInterrupt):
        stages_of(bass, work, tiny).train(Budget(None, 1, "positions"))
    assert read_checkpoint(work / "train")["state"].n_updates == 1


def test_what_is_no_number_is_not_saved(bass, run, work, tiny):
    """A later run goes on with what was good."""
    assert run(bass, *train(work, tiny, "--positions", 100)).code == 0
    good = (work / "train" / "checkpoint.pt").read_bytes()
    done = run(bass, *train(work, tiny, "--positions", 3000, "--learning-rate", 1e8))
    assert done.code == 1 and "has diverged" in done.err and "give a lower --learning-rate" in done.err, done.err
    assert (work / "train" / "checkpoint.pt").read_bytes() == good


def test_a_loss_that_is_no_number_ends_the_training_at_once(bass, work, tiny, monkeypatch):
    unrolled = Trainer._unrolled
    monkeypatch.setattr(Trainer, "_unrolled", lambda *arguments: [dataclasses.replace(result, loss=result.loss * math.nan)
                                                                  for result in unrolled(*arguments)])
    with pytest.raises(UserError, match="has diverged at update 0 "):
        stages_of(bass, work, tiny).train(Budget(None, 500, "positions"))


def test_weights_that_are_no_numbers_are_not_saved(bass, work, tiny, monkeypatch):
    """Also where the loss, which is that from before the update, still was one."""

    def poison(self, _):
        next(self._model.parameters()).data.fill_(float("nan"))
        self._recent.append([1.0])
        self.checkpoint.n_updates, self.checkpoint.n_positions = 1, 100

    monkeypatch.setattr(Trainer, "_timed_step", poison)
    with pytest.raises(UserError, match="has diverged"):
        stages_of(bass, work, tiny).train(Budget(None, 100, "positions"))
    assert read_checkpoint(work / "train") is None


def test_a_time_in_which_nothing_is_trained_is_too_short(bass, run, work, tiny):
    arguments = train(work, tiny, "--hours", 1e-9)
    done = run(bass, *arguments)
    assert done.code == 2 and "--hours is too short" in done.err and "Traceback" not in done.err, done.err
    assert read_checkpoint(work / "train") is None


def test_what_a_training_began_with_stays(bass, run, work, tiny, tmp_path):
    """Another beginning is refused, and the file does not tell of one that was not used."""
    draft = tmp_path / "draft.gguf"
    assert run(bass, *train(work, tiny, "--positions", 50)).code == 0
    assert run(bass, "export", "-m", tiny, "--work", work, "-o", draft).code == 0
    for arguments, words in ((["--init", draft], "was begun with another init;"),
                             (["--draft-vocab", 90], "was begun with another draft-vocab;"),
                             (["--no-main-weights"], "was begun with another main-weights;")):
        done = run(bass, *train(work, tiny, "--positions", 50, *arguments))
        assert done.code == 2 and words in done.err, done.err
    settings = work / "train" / "settings.json"
    noted = json.loads(settings.read_text())
    older = {name: noted[name] for name in ("model", "shape", "seed", "max-text", "batch-rows")}
    settings.write_text(json.dumps(older))
    done = run(bass, *train(work, tiny, "--positions", 60, "--init", draft, "--unroll", 2, "--learning-rate", 0.01))
    assert done.code == 0, done.err
    state = read_checkpoint(work / "train")["state"]
    assert state.before == "" and "2 steps unrolled" in state.loss
    done = run(bass, *train(work, tiny, "--positions", 60, "--init", draft))
    assert done.code == 0 and "is done; with more --hours or --positions it goes on" in done.err, done.err


def test_two_do_not_work_in_one_folder(bass, run, start, work, tiny):
    process = start(bass, *train(work, tiny, "--positions", 100000, "--checkpoint-minutes", 0.002))
    wait_for_checkpoint(work, process)
    settings = (work / "train" / "settings.json").read_bytes()
    done = run(bass, *train(work, tiny, "--positions", 100000))
    assert done.code == 2 and "another bass-draft works there" in done.err, done.err
    assert (work / "train" / "settings.json").read_bytes() == settings
    assert run(bass, "export", "-m", tiny, "--work", work, "-o", work / "draft.gguf").code == 0
    assert process.poll() is None, "export took something from the one that trains"
    process.kill()
    process.wait()
    assert run(bass, *train(work, tiny, "--positions", 1)).code == 0


def test_features_are_bounded_on_disk(bass, run, work, tiny):
    done = run(bass, *train(work, tiny, "--positions", 300, "--cache-gib", 0))
    assert done.code == 0, done.err
    assert len(list((work / "features").glob("*.safetensors"))) <= 1


def test_texts_without_a_token_of_the_answer_are_left_out(bass, run, work, tiny):
    """Cut within their prompts they teach nothing; where all are, training says so and does not go on for ever."""
    done = run(bass, *train(work, tiny, "--positions", 300, "--max-text", 2))
    assert done.code == 2 and "there is too little text to train on" in done.err, done.err


def test_the_log_has_every_step(bass, run, work, tiny):
    assert run(bass, *train(work, tiny, "--positions", 300)).code == 0
    line = json.loads((work / "train" / "log.jsonl").read_text().splitlines()[-1])
    assert len(line["held_out"]["all"]["temperature_1"]) == 3 and line["positions"] >= 300


def test_errors(bass, run, work, tiny, tmp_path):
    assert run(bass, *train(work, tiny, "--positions", 50)).code == 0
    for arguments, words in [
            (train(work, tiny, "--positions", 100, "--taps", "1"), "was begun with another shape"),
            (train(work, tiny, "--positions", 100, "--seed", 77, "--max-text", 30), "was begun with another seed and another max-text"),
            (train(work, tiny, "--positions", 100, "--batch-rows", 17), "was begun with another batch-rows"),
            (train(tmp_path / "nothing", tiny, "--positions", 100), "there is no text yet; run `bass-draft generate`"),
            (train(work, tiny), "give --hours H or --positions N"),
            (train(work, tiny, "--positions", 1, "--init", tiny), "is no draft of this tool")]:
        done = run(bass, *arguments)
        assert done.code == 2 and words in done.err and "Traceback" not in done.err, (words, done.err)
    first = work / "text" / "00000.jsonl"
    first.write_text(first.read_text().splitlines()[0] + "\n")
    (work / "text" / "00001.jsonl").unlink()
    shutil.rmtree(work / "features")
    done = run(bass, *train(work, tiny, "--positions", 100))
    assert done.code == 2 and "there is too little text to train on" in done.err, done.err
    (work / "train" / "checkpoint.pt").write_bytes(b"PK half of it")
    done = run(bass, *train(work, tiny, "--positions", 100))
    assert done.code == 2 and "not a whole checkpoint" in done.err, done.err
