"""On a pseudo-terminal: the live view, small terminals, NO_COLOR, Ctrl-C."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
TIMEOUT_S = 120


class Terminal:
    """Runs a program on a terminal of its own; its output is kept with the time at which it came."""

    def __init__(self, arguments, n_columns=80, n_rows=24, env=None, cwd=None):
        self.master, slave = pty.openpty()
        self.resize(n_columns, n_rows)
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self.child = subprocess.Popen(arguments, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True,
                                      env={**environment, "TERM": "xterm", **(env or {})},
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.output = b""

    def resize(self, n_columns, n_rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", n_rows, n_columns, 0, 0))

    def read_until(self, done):
        """Reads until done(output) or the end of the program."""
        end = time.monotonic() + TIMEOUT_S
        while not done(self.output):
            readable = select.select([self.master], [], [], max(end - time.monotonic(), 0))[0]
            assert readable, self.output
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the other side is closed
                return
            if not data:
                return
            self.output += data

    def finish(self):
        self.read_until(lambda _: False)
        code = self.child.wait(TIMEOUT_S)
        os.close(self.master)
        return code, self.output.decode("utf-8")


def screen(output, n_columns, n_rows):
    """The lines that a terminal shows after this output: enough of a terminal for what bass writes."""
    lines, row, column = [[]], 0, 0
    for token in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|.", output, re.DOTALL):
        if token == "\r":
            column = 0
        elif token == "\n":
            row += 1
            if row == len(lines):
                lines.append([])
        elif token.startswith("\x1b["):
            count = int(re.sub(r"\D", "", token) or "1")
            if token.endswith("A"):
                row = max(row - count, max(0, len(lines) - n_rows))
            elif token.endswith("K"):
                del lines[row][column:]
            elif token.endswith("J"):
                del lines[row][column:]
                del lines[row + 1:]
            else:
                assert token[-1] in "mhl", f"unexpected control sequence {token!r}"
        else:
            assert ord(token) >= 32, f"unexpected control character {token!r}"
            lines[row][column:column + 1] = [token]
            column += 1
            assert column <= n_columns or row < len(lines), "a line wrapped"
    return ["".join(line) for line in lines]


def split_live(output):
    """The live view's bytes and those after it."""
    assert output.startswith(HIDE) and output.count(HIDE) == 1 and output.count(SHOW) == 1
    live, after = output.split(SHOW)
    return live, after


@pytest.mark.parametrize("n_columns, n_rows", [(80, 24), (20, 4), (40, 10), (200, 50)])
def test_live_view_is_drawn_and_taken_away(binary, smollm2, n_columns, n_rows):
    code, output = Terminal([binary, "generate", "-m", smollm2, "-p", "Once upon a time", "-n", "6", "--max-tokens", "40",
                             "--ignore-eos"], n_columns, n_rows).finish()
    assert code == 0
    live, after = split_live(output)
    assert "tokens/s" in live
    assert screen(live, n_columns, n_rows) == [""], "nothing of the live view stays"
    assert "[1] sample" in after and "[6] sample" in after
    assert set(re.findall(r"\x1b\[[^m]*?m", after)) <= {"\x1b[1m", "\x1b[0m"}
    assert not re.search(r"\x1b(?!\[[01]m)", after), "no other control sequences"


def test_live_lines_fit_the_terminal(binary, smollm2):
    n_columns = 20
    _, output = Terminal([binary, "generate", "-m", smollm2, "-p", "日本語で話してください。", "-n", "3", "--max-tokens", "30",
                          "--ignore-eos"], n_columns, 6).finish()
    for line in re.split(r"\r\n|\x1b\[K", split_live(output)[0]):
        text = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n", "", line)
        n_wide = sum(1 for character in text if "\u1100" <= character <= "\u115f" or "\u2e80" <= character <= "\uffdc")
        assert len(text) + n_wide - text.count("\ufffd") <= n_columns


def test_resize_while_running(binary, smollm2):
    terminal = Terminal([binary, "generate", "-m", smollm2, "-p", "Once upon a time", "-n", "4", "--max-tokens", "120",
                         "--ignore-eos"], 100, 30)
    terminal.read_until(lambda output: output.count(b"tokens/s") >= 2)
    terminal.resize(30, 8)
    code, output = terminal.finish()
    assert code == 0
    live, after = split_live(output)
    assert "[4] sample" in after
    # a terminal that cuts lines instead of wrapping them: what was above the view stays
    assert screen("above\r\n" + live, 1000, 1000) == ["above", ""]


def test_show_drafts_colours(binary, tiny):
    arguments = [binary, "generate", "-m", tiny, "-d", tiny, "-p", "hello", "--max-tokens", "40", "--temperature", "0",
                 "--draft-length", "fixed:4", "--ignore-eos", "--show-drafts"]
    code, output = Terminal(arguments).finish()
    assert code == 0
    assert "\x1b[32m" in output and "accepted draft" in output
    code, output = Terminal(arguments, env={"NO_COLOR": "1"}).finish()
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*m", output), "NO_COLOR is honoured"
    assert "tokens: A accepted draft" in output


def test_dumb_terminal_gets_no_live_view(binary, tiny):
    code, output = Terminal([binary, "generate", "-m", tiny, "-p", "hello", "--max-tokens", "10"], env={"TERM": "dumb"}).finish()
    assert code == 0
    assert "\x1b" not in output


def batch_of_calls(tmp_path, n_calls):
    calls = tmp_path / "calls.jsonl"
    body = {"prompt": "Once", "max_tokens": 30, "ignore_eos": True}
    calls.write_text("".join(json.dumps({"custom_id": str(i), "url": "/v1/completions", "body": body}) + "\n" for i in range(n_calls)))
    return ["batch", "--max-batch", "2", "-i", calls, "-o", tmp_path / "answers.jsonl"]


@pytest.mark.parametrize("n_columns", [80, 12])
def test_a_batch_says_how_far_it_is(binary, smollm2, tmp_path, n_columns):
    code, output = Terminal([binary, *batch_of_calls(tmp_path, 12), "-m", smollm2], n_columns=n_columns).finish()
    assert code == 0
    shown = re.findall(r"\r\x1b\[K([^\r\n]*)", output)
    if n_columns == 80:
        assert any(re.fullmatch(r"\d+ of 12 calls, \d+ tokens/s  \d+ s left", line) for line in shown), shown
        assert "calls, " not in "".join(screen(output, n_columns, 24)), "it is taken away"
    assert len(shown) > 2 and all(len(line) < n_columns for line in shown[:-1]), "the last one is taken away"
    assert "note: 12 of 12 calls are in" in output and re.search(r"360 tokens in \S+ s, \S+ tokens/s", output)


def test_a_dumb_terminal_is_not_told_how_far_a_batch_is(binary, tiny, tmp_path):
    code, output = Terminal([binary, *batch_of_calls(tmp_path, 3), "-m", tiny], env={"TERM": "dumb"}).finish()
    assert code == 0 and "\x1b" not in output and "calls, " not in output


def test_quiet_on_a_terminal_is_quiet(binary, tiny):
    code, output = Terminal([binary, "generate", "-m", tiny, "-p", "hello", "--max-tokens", "10", "--quiet"]).finish()
    assert code == 0
    assert "\x1b" not in output


SAME_WISH_S = 0.7  # signals that come later are another wish to stop
LONG = ["-p", "Once upon a time", "-n", "4", "--max-tokens", "4000", "--context", "4200", "--ignore-eos"]


def test_ctrl_c_on_the_terminal(binary, smollm2):
    terminal = Terminal([binary, "generate", "-m", smollm2, *LONG])
    terminal.read_until(lambda output: output.count(b"tokens/s") >= 4)
    os.write(terminal.master, b"\x03")
    code, output = terminal.finish()
    assert code == 130
    after = output.split(SHOW)[1]
    assert after.count("cancelled") == 4, "what there is is printed"


def wait_until_it_computes(child):
    """Until its processors' time is several times what loading the model takes."""
    end = time.monotonic() + TIMEOUT_S
    while child.poll() is None and time.monotonic() < end:
        with open(f"/proc/{child.pid}/stat", encoding="ascii") as file:
            user_ticks = int(file.read().rpartition(") ")[2].split()[11])
        if user_ticks >= 2 * os.sysconf("SC_CLK_TCK"):
            return
        time.sleep(0.02)
    raise AssertionError("it does not compute")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_without_a_terminal(binary, smollm2, number):
    with subprocess.Popen([binary, "generate", "-m", smollm2, *LONG, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        wait_until_it_computes(child)
        child.send_signal(number)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 130
    assert out.count(b'"cancelled"') == 4


def test_a_signal_that_comes_twice_is_one_wish(binary, smollm2):
    """`timeout` signals the process and its group; a wrapper passes on what the terminal has sent to both."""
    with subprocess.Popen([binary, "generate", "-m", smollm2, *LONG, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        wait_until_it_computes(child)
        for _ in range(3):
            child.send_signal(signal.SIGTERM)
            time.sleep(0.005)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 130
    assert out.count(b'"cancelled"') == 4


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
def test_the_cursor_is_shown_again(binary, smollm2, number):
    terminal = Terminal([binary, "generate", "-m", smollm2, *LONG])
    terminal.read_until(lambda output: output.count(b"tokens/s") >= 2)
    terminal.child.send_signal(number)
    code, output = terminal.finish()
    assert code == 130
    assert output.count(HIDE) == 1 and output.count(SHOW) == 1


def test_a_terminal_that_goes_away(binary, smollm2):
    terminal = Terminal([binary, "generate", "-m", smollm2, *LONG])
    terminal.read_until(lambda output: output.count(b"tokens/s") >= 2)
    os.close(terminal.master)  # the kernel sends SIGHUP, and no write succeeds any more
    assert terminal.child.wait(TIMEOUT_S) == 130


@contextlib.contextmanager
def nobody_reads(is_blocking=True):
    """The end of a full pipe that is written to."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, is_blocking)
    try:
        yield write_end
    finally:
        os.close(write_end)
        with open(read_end, "rb") as pipe:
            written = pipe.read()
    assert set(written) == set(b"x")


def wait_until_it_writes(child):
    """Until its main thread is in write(1, ...), or in poll."""
    for _ in range(3000):
        try:
            with open(f"/proc/{child.pid}/syscall", encoding="ascii") as file:
                call = file.read().split()
        except OSError:  # a system that does not say so
            time.sleep(5)
            return
        if call[0] == "7" or call[:2] == ["1", "0x1"]:
            return
        time.sleep(0.02)
    raise AssertionError("it does not write")


def test_a_later_ctrl_c_ends_at_once(binary, tiny):
    """Also a program that waits for whoever reads its results."""
    with nobody_reads() as pipe, subprocess.Popen([binary, "generate", "-m", tiny, "-p", "a", "--json"], stdout=pipe,
                                                  stderr=subprocess.PIPE) as child:
        wait_until_it_writes(child)
        child.send_signal(signal.SIGINT)
        time.sleep(SAME_WISH_S)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.wait(5) == 130


@pytest.mark.parametrize("is_blocking", [True, False])
def test_one_sigterm_ends_waiting_for_a_reader(binary, tiny, is_blocking):
    with nobody_reads(is_blocking) as pipe, subprocess.Popen([binary, "generate", "-m", tiny, "-p", "a", "--json"],
                                                             stdout=pipe, stderr=subprocess.PIPE) as child:
        end_by_sigterm(child)


def end_by_sigterm(child):
    try:
        wait_until_it_writes(child)
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 130
        assert child.stderr.read() == b"error: interrupted\n"
    finally:
        child.kill()


LARGE = ["-p", "a", "-n", "600", "--max-tokens", "40", "--ignore-eos", "--json"]  # more than a pipe holds


def test_one_sigterm_ends_waiting_behind_what_a_pipe_holds(binary, tiny):
    """The system gives back how much was written, and no error."""
    with subprocess.Popen([binary, "generate", "-m", tiny, *LARGE], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        end_by_sigterm(child)


def test_a_sigterm_leaves_a_slow_reader_everything(binary, tiny):
    with subprocess.Popen([binary, "generate", "-m", tiny, *LARGE], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            wait_until_it_writes(child)
            child.send_signal(signal.SIGTERM)
            output = b""
            while part := os.read(child.stdout.fileno(), 8192):
                output += part
                time.sleep(0.001)
            assert output.count(b'"finish_reason"') == 600
            json.loads(output)
            child.wait(20)
        finally:
            child.kill()


def catches(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        caught = int(re.search(r"SigCgt:\s*([0-9a-f]+)", status.read())[1], 16)
    return caught >> (number - 1) & 1 == 1


def catches_interrupts(pid):
    return catches(pid, signal.SIGINT)


@pytest.mark.parametrize("delay_s", [0, 0.001, 0.01, 0.05])
def test_ctrl_c_while_starting(binary, smollm2, delay_s):
    # main's first act is to catch it; before that the system's loader runs, whose time is no program's own.
    with subprocess.Popen([binary, "generate", "-m", smollm2, *LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        while not catches_interrupts(child.pid):
            assert child.poll() is None
        time.sleep(delay_s)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
    assert child.returncode == 130


@pytest.mark.parametrize("command", ["tokenize", "score", "detokenize"])
def test_ctrl_c_while_reading_a_pipe(binary, tiny, command):
    """Ctrl-C ends the pipe's writer too: what was read until then is no whole text."""
    with subprocess.Popen([binary, command, "-m", tiny], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        child.stdin.write(b"1 2 3")
        child.stdin.flush()
        while not catches_interrupts(child.pid):
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)  # closes the pipe
    assert child.returncode == 130
    assert out == b"" and b"interrupted" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_signal_that_was_ignored_stays_ignored(binary, tiny, number):
    """A shell script starts `command &` so, nohup too: Ctrl-C is for the command in front."""
    with subprocess.Popen([binary, "tokenize", "-m", tiny], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)) as child:
        while not catches(child.pid, signal.SIGTERM):
            assert child.poll() is None
        time.sleep(0.2)
        child.send_signal(number)
        time.sleep(0.2)
        out, _ = child.communicate(b"hello", timeout=30)
    assert child.returncode == 0 and json.loads(out)


def test_ctrl_c_while_waiting_for_input(binary, tiny):
    terminal = Terminal([binary, "generate", "-m", tiny, "-f", "-"])
    time.sleep(0.5)
    os.write(terminal.master, b"\x03")
    assert terminal.finish()[0] == 130


@pytest.mark.parametrize("option", ["-f", "--prompts"])
def test_ctrl_c_while_a_named_pipe_has_no_writer(binary, tiny, tmp_path, option):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen([binary, "generate", "-m", tiny, option, tmp_path / "pipe"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == 130


def test_results_wait_for_a_pipe_that_must_not_block(binary, tiny):
    """O_NONBLOCK may come from whoever shares the pipe: nothing is lost while it is full."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with subprocess.Popen([binary, "generate", "-m", tiny, "-p", "a", "-n", "64", "--max-tokens", "100", "--ignore-eos",
                           "--json"], stdout=write_end, stderr=subprocess.PIPE) as child:
        os.close(write_end)
        time.sleep(2)  # until the pipe is full
        with open(read_end, "rb") as pipe:
            result = json.loads(pipe.read())
        assert child.wait(30) == 0, child.stderr.read()
    assert len(result["prompts"][0]["choices"]) == 64
