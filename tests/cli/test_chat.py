"""`bass chat`: a conversation through pipes and on a terminal."""
import os
import signal
import subprocess
import time

import pytest

from test_terminal import SAME_WISH_S, Terminal

GREEDY = ["--temperature", "0", "--max-tokens", "24"]


def generate(run, model, prompt, *options):
    """What `bass generate --chat` answers."""
    done = run("generate", "-m", model, "--chat", "-p", prompt, "--json", *GREEDY, *options)
    assert done.code == 0, done.err
    return done.json()["prompts"][0]["choices"][0]["text"]


def test_answers_a_line(run, smollm2):
    done = run("chat", "-m", smollm2, *GREEDY, stdin="What is the capital of France?\n".encode())
    assert done.code == 0, done.err
    assert done.out == generate(run, smollm2, "What is the capital of France?") + "\n"
    assert ">" not in done.err, "no prompt where nobody types"


def test_the_last_line_needs_no_line_feed(run, smollm2):
    lines = [run("chat", "-m", smollm2, *GREEDY, stdin=text).out for text in (b"Hello", b"Hello\n", b"\n \nHello\r\n\n")]
    assert lines[0] and lines[0] == lines[1] == lines[2]


def test_the_conversation_is_kept_and_reset(run, smollm2):
    first, second = "My name is Ann. Say hello to me.", "What is my name?"
    both = run("chat", "-m", smollm2, *GREEDY, stdin=f"{first}\n{second}\n".encode())
    fresh = run("chat", "-m", smollm2, *GREEDY, stdin=f"{first}\n/reset\n{second}\n".encode())
    assert both.code == fresh.code == 0
    answer = generate(run, smollm2, first)
    assert both.out.startswith(answer + "\n") and fresh.out.startswith(answer + "\n")
    assert fresh.out == answer + "\n" + generate(run, smollm2, second) + "\n"
    assert both.out != fresh.out, "the second answer knows the first turn"


def test_system(run, smollm2):
    text = "Answer like a pirate."
    given = run("chat", "-m", smollm2, *GREEDY, "--system", text, stdin=b"Hello")
    said = run("chat", "-m", smollm2, *GREEDY, stdin=f"/system {text}\nHello\n".encode())
    taken = run("chat", "-m", smollm2, *GREEDY, "--system", text, stdin=b"/system\nHello\n")
    assert given.out == said.out == generate(run, smollm2, "Hello", "--system", text) + "\n"
    assert taken.out == generate(run, smollm2, "Hello") + "\n"


def test_commands(run, smollm2):
    done = run("chat", "-m", smollm2, *GREEDY, stdin=b"/help\n/exit\nnever sent\n")
    assert done.code == 0 and done.out == "" and "/reset" in done.err
    done = run("chat", "-m", smollm2, *GREEDY, stdin=b"/quit\nHello\n")
    assert done.code == 2 and done.out == "" and "/quit: no such command" in done.err
    sent = run("chat", "-m", smollm2, *GREEDY, stdin=b"/usr/bin is what?\n")
    assert sent.code == 0 and sent.out == generate(run, smollm2, "/usr/bin is what?") + "\n"


def test_a_seed_repeats_the_bytes(run, smollm2):
    runs = [run("chat", "-m", smollm2, "--max-tokens", "20", "--seed", seed, *options, stdin=b"Tell me a story.\nGo on.\n").out
            for seed, options in (("1", []), ("1", ["--drafter", "off"]), ("2", []))]
    assert runs[0] == runs[1] != runs[2]


def test_a_full_context_is_said(run, smollm2):
    done = run("chat", "-m", smollm2, "--temperature", "0", "--context", "60", stdin=b"Tell me a long story.\n")
    assert done.code == 0 and "the context is full" in done.err and "/reset" in done.err
    done = run("chat", "-m", smollm2, "--temperature", "0", "--context", "60", stdin=b"Tell me a long story.\nGo on.\n")
    assert done.code == 2 and "the context holds 60" in done.err and "/reset" in done.err
    done = run("chat", "-m", smollm2, *GREEDY, "--max-tokens", "3", stdin=b"Tell me a long story.\n")
    assert done.code == 0 and "--max-tokens" in done.err


@pytest.mark.parametrize("options, stdin, message", [
    ([], b"Hello", "-m: missing"),
    (["-m", "nothing.gguf"], b"Hello", "nothing.gguf"),
    (["-m", "SMOLLM2", "--json"], b"", "--json"),
    (["-m", "SMOLLM2", "-p", "x"], b"", "-p"),
    (["-m", "SMOLLM2"], b"a\xff\n", "invalid UTF-8 at byte 1"),
    (["-m", "SMOLLM2", "--max-tokens", "0"], b"", "--max-tokens 0"),
])
def test_mistakes(run, smollm2, options, stdin, message):
    done = run("chat", *[smollm2 if option == "SMOLLM2" else option for option in options], stdin=stdin)
    assert done.code == 2 and done.out == ""
    assert message in done.err and done.err.startswith("error: ")


def test_help(run):
    done = run("chat", "--help")
    assert done.code == 0 and "[1024]" in done.out and "/reset" in done.out and "bass chat -m smollm2" in done.out


LONG = ["--max-tokens", "3000", "--logit-bias", "0:-1000", "--logit-bias", "2:-1000"]  # no end token ends an answer
STORY = b"Count from one to one thousand in words, all the numbers, one after the other.\n"


def test_on_a_terminal(binary, smollm2):
    terminal = Terminal([binary, "chat", "-m", smollm2, *GREEDY])
    terminal.read_until(lambda output: output.endswith(b"> "))
    os.write(terminal.master, b"Hello\n")
    terminal.read_until(lambda output: output.count(b"> ") == 2)
    os.write(terminal.master, b"/nothing\n")
    terminal.read_until(lambda output: output.count(b"> ") == 3)
    assert b"no such command" in terminal.output
    os.write(terminal.master, b"\x04")
    code, output = terminal.finish()
    assert code == 0 and output.endswith("> \r\n")


def test_ctrl_c_stops_the_answer_and_then_the_program(binary, smollm2):
    terminal = Terminal([binary, "chat", "-m", smollm2, *LONG])
    terminal.read_until(lambda output: output.endswith(b"> "))
    for n_prompts in (2, 3):
        os.write(terminal.master, STORY)
        length = len(terminal.output)
        terminal.read_until(lambda output, begin=length: len(output) > begin + 150)
        os.write(terminal.master, b"\x03")
        hit = time.monotonic()
        terminal.read_until(lambda output, n=n_prompts: output.count(b"\n> ") == n)
        if time.monotonic() < hit + SAME_WISH_S / 3:
            os.write(terminal.master, b"\x03")  # the key was hit twice: the same wish
        time.sleep(SAME_WISH_S)
    assert terminal.child.poll() is None
    os.write(terminal.master, b"\x03")
    code, _ = terminal.finish()
    assert code == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_other_signals_end_the_program(binary, smollm2, number):
    """And Ctrl-C, where no person is there: a cut answer must not look like a whole one, nor be followed by others."""
    with subprocess.Popen([binary, "chat", "-m", smollm2, *LONG], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        child.stdin.write(STORY)
        child.stdin.flush()
        assert child.stdout.read(1)
        child.send_signal(number)
        start = time.monotonic()
        child.stdout.read()
        assert child.wait(30) == 130 and time.monotonic() - start < 20


def test_a_closed_pipe_ends_quietly(binary, smollm2):
    with subprocess.Popen([binary, "chat", "-m", smollm2, *LONG], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        child.stdin.write(STORY)
        child.stdin.flush()
        assert child.stdout.read(1)
        child.stdout.close()
        child.stdin.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 1
