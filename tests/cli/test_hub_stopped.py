"""bass pull ORG/NAME: being stopped, others at the same work, and the bar."""
import fcntl
import os
import pathlib
import signal
import subprocess
import time

import pytest
from fake_hub import bass, big, cache, environment, hub, model, ready_path, REPO, sha256, TIMEOUT_S, tree  # noqa: F401 (fixtures)


def start_slowly(binary, hub, environment):
    """A pull that has got some bytes and would take seconds."""
    hub.piece, hub.pause_s = 64 << 10, 0.05
    process = subprocess.Popen([binary, "pull", "org/model"], env={**os.environ, **environment}, stderr=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    folder = pathlib.Path(environment["HF_HOME"]) / "hub" / REPO / "blobs"
    end = time.monotonic() + TIMEOUT_S
    while not any(path.stat().st_size > 0 for path in folder.glob("*.incomplete")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_stopped_it_goes_on_later(binary, bass, hub, environment, cache, number, code):
    data = big()
    hub.files = {"a.gguf": data}
    process = start_slowly(binary, hub, environment)
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == code
    process.communicate()
    blobs = tree(cache / "blobs")
    assert list(blobs) == [f"{sha256(data)}.incomplete"] and not (cache / "refs").exists()
    n_bytes = len(blobs.popitem()[1])
    assert 0 < n_bytes < len(data)
    hub.pause_s = 0
    hub.log.clear()
    assert ready_path(bass("pull", "org/model")).read_bytes() == data
    assert hub.fetched() == [("a.gguf", f"bytes={n_bytes}-")]
    assert list(tree(cache / "blobs")) == [sha256(data)]


def test_stopped_while_it_reads_what_is_there_it_keeps_that(binary, hub, environment, cache):
    data = bytes(256 << 20)
    hub.files = {"a.gguf": data}
    there = cache / "blobs" / f"{sha256(data)}.incomplete"
    there.parent.mkdir(parents=True)
    with open(there, "wb") as file:
        file.truncate(len(data) - 1)
    process = subprocess.Popen([binary, "pull", "org/model"], env={**os.environ, **environment}, stderr=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    counters = pathlib.Path(f"/proc/{process.pid}/io")
    while int(counters.read_text().split()[1]) < 32 << 20:
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130
    process.communicate()
    assert there.stat().st_size == len(data) - 1


def test_two_at_once_fetch_once(binary, hub, environment, cache):
    hub.files = {"a.gguf": big(4 << 20)}
    processes = [start_slowly(binary, hub, environment)]
    processes.append(subprocess.Popen(processes[0].args, env={**os.environ, **environment}, stderr=subprocess.PIPE))
    assert [process.wait(TIMEOUT_S) for process in processes] == [0, 0]
    assert hub.fetched() == [("a.gguf", None)]
    assert b"another program is fetching it" in processes[1].communicate()[1]
    processes[0].communicate()


def test_the_lock_is_the_one_of_other_programs(binary, bass, hub, environment, cache):
    hub.files = {"a.gguf": model()}
    lock = cache.parent / ".locks" / REPO / f"{sha256(model())}.lock"
    lock.parent.mkdir(parents=True)
    with open(lock, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = subprocess.Popen([binary, "pull", "org/model"], env={**os.environ, **environment}, stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL)
        assert b"waiting" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130 and hub.fetched() == []
        process.stderr.close()
    assert bass("pull", "org/model").code == 0


def test_a_bar_on_a_terminal(binary, hub, environment, tmp_path):
    from test_terminal import Terminal, screen
    hub.files, hub.piece, hub.pause_s = {"a-long-name-of-a-file.gguf": big(4 << 20)}, 128 << 10, 0.05
    terminal = Terminal([binary, "pull", "org/model"], 60, 10, env=environment, cwd=tmp_path)
    code, output = terminal.finish()
    assert code == 0
    bars = output.split("\r\x1b[K")
    assert len(bars) > 3 and " %  " in bars[1] and "/s" in bars[2] and " left" in bars[2]
    assert all(len(bar) < 60 for bar in bars[1:-1])
    lines = screen(output, 60, 10)
    assert lines[0].startswith("a-long-name-of-a-file.gguf: 4.0 MiB in ") and lines[1].startswith("org/model is ready: ")
