"""`bass chat`: a conversation through pipes and on a terminal."""
import contextlib
import os
import select
import signal
import subprocess
import termios
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
    done = run("chat", "-m", smollm2, *GREEDY, stdin=b"/quit\nnever sent\n")
    assert done.code == 0 and done.out == ""
    done = run("chat", "-m", smollm2, *GREEDY, stdin=b"/stop\nHello\n")
    assert done.code == 2 and done.out == "" and "/stop: no such command" in done.err
    sent = run("chat", "-m", smollm2, *GREEDY, stdin=b"/usr/bin is what?\n")
    assert sent.code == 0 and sent.out == generate(run, smollm2, "/usr/bin is what?") + "\n"


def test_a_seed_repeats_the_bytes(run, smollm2):
    runs = [run("chat", "-m", smollm2, "--max-tokens", "20", "--seed", seed, *options, stdin=b"Tell me a story.\nGo on.\n").out
            for seed, options in (("1", []), ("1", ["--drafter", "off"]), ("2", []))]
    assert runs[0] == runs[1] != runs[2]


def test_what_the_context_has_no_room_for_is_forgotten(run, smollm2):
    ask = lambda options, *lines: run("chat", "-m", smollm2, *GREEDY, *options, stdin="\n".join(lines).encode())
    lines = [f"Say the number {i} and the number {i + 1}, please." for i in range(12)]
    done = ask(["--context", "200"], *lines)
    assert done.code == 0 and "the context is full" not in done.err, done.err
    assert "messages are forgotten" in done.err
    whole = ask([], *lines)
    assert "forgotten" not in whole.err and whole.out[:100] == done.out[:100]
    # All of the turns before the last message, but not the system message.
    small = ["--context", "64", "--system", "Be brief."]
    last = ask(small, lines[0], "What is the capital of France?")
    assert "the oldest 2 messages are forgotten" in last.err
    assert last.out.endswith(ask(small, "What is the capital of France?").out)


def test_a_message_that_is_too_long_costs_no_turn(run, binary, smollm2):
    options = [*GREEDY, "--context", "300"]
    expected = run("chat", "-m", smollm2, *options, stdin=b"My name is Ann.\nWhat is my name?\n").out
    chat = Chat(binary, smollm2, *options)
    answers = [chat.say(keys) for keys in (b"My name is Ann.", pasted(b"a b " * 400), b"What is my name?")]
    assert answers[0] + answers[2] == expected
    chat.end()


def test_a_full_context_is_said(run, smollm2):
    done = run("chat", "-m", smollm2, "--temperature", "0", "--context", "60", stdin=b"Tell me a long story.\n")
    assert done.code == 0 and "the context is full" in done.err
    done = run("chat", "-m", smollm2, "--temperature", "0", "--context", "60", stdin=b"Tell me a long story.\n" + b"Go on. " * 60)
    assert done.code == 2 and "the context holds 60" in done.err
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
STORY = b"Count from one to one thousand in words, all the numbers, one after the other."


PASTE_ON, PASTE_OFF = b"\x1b[?2004h", b"\x1b[?2004l"
PROMPT = PASTE_ON + b"> "
UP, LEFT, RIGHT, HOME, END, DELETE = b"\x1b[A", b"\x1b[D", b"\x1bOC", b"\x1b[H", b"\x1b[4~", b"\x1b[3~"


class Chat(Terminal):
    """`bass chat` on a terminal, and what a person does there."""

    def __init__(self, binary, model, *options, env=None):
        super().__init__([binary, "chat", "-m", model, *options], env=env)
        self.n_prompts = self.n_seen = 0
        self.await_prompt()

    def await_prompt(self):
        """What came from the prompt before to the next one, as text."""
        begin = self.n_seen
        self.n_prompts += 1
        self.read_until(lambda output: output.count(PROMPT) >= self.n_prompts)
        assert self.output.count(PROMPT) == self.n_prompts
        self.n_seen = len(self.output)
        return self.output[begin:].decode().replace("\r\n", "\n")

    def type(self, keys):
        """In pieces, since a terminal holds few bytes that nobody has read, either way; reads until nothing more is drawn."""
        for begin in range(0, len(keys), 500):
            os.write(self.master, keys[begin:begin + 500])
            with contextlib.suppress(OSError):  # the program has ended
                while select.select([self.master], [], [], 0.02)[0]:
                    self.output += os.read(self.master, 65536)

    def send(self, keys):
        """A message and Enter. Of what follows nothing is read yet: an answer that does not pause would be read whole."""
        self.type(keys)
        os.write(self.master, b"\r")

    def say(self, keys):
        """Types a message and Enter: the answer, or what else is printed."""
        self.send(keys)
        printed = self.await_prompt().rpartition(PASTE_OFF.decode())[2].removesuffix(PROMPT.decode())
        return printed.removesuffix("(cut: --max-tokens allows more)\n")

    def end(self):
        self.type(b"\x04")
        code, output = self.finish()
        assert code == 0 and output.endswith("> " + PASTE_OFF.decode() + "\r\n")


def pasted(text):
    return b"\x1b[200~" + text + b"\x1b[201~"


def test_on_a_terminal(run, binary, smollm2):
    chat = Chat(binary, smollm2, *GREEDY)
    assert chat.say(b"Hello") == generate(run, smollm2, "Hello") + "\n"
    assert "no such command" in chat.say(b"/nothing")
    assert "Alt-Enter" in chat.say(b"/help")
    chat.end()


def test_a_long_line_arrives_whole(binary, smollm2):
    """The error has all of it."""
    word = "/" + "".join(f"{number:05}" for number in range(2000))
    chat = Chat(binary, smollm2, *GREEDY)
    for keys in (word.encode(), pasted(word.encode()), UP):
        printed = chat.say(keys)
        assert printed.startswith(f"error: {word}: no such command;") and printed.count("\n") == 1
    chat.end()


def test_a_paste_is_one_message(run, binary, smollm2):
    chat = Chat(binary, smollm2, *GREEDY)
    chat.type(pasted("My name is Änn.\rI have\ttwo dogs.\r\nSay hello to ".encode()))
    assert chat.output.endswith("> My name is Änn.\r\nI have  two dogs.\r\nSay hello to ".encode()), "it is shown"
    answer = chat.say(b"me.")
    assert answer == generate(run, smollm2, "My name is Änn.\nI have\ttwo dogs.\nSay hello to me.") + "\n"
    chat.end()


def test_a_paste_without_an_end_is_left_by_ctrl_c(binary, smollm2):
    chat = Chat(binary, smollm2, *GREEDY)
    chat.type(b"\x1b[200~/nothing\r\x03")
    chat.await_prompt()
    assert b"no such command" not in chat.output
    chat.end()


@pytest.mark.parametrize("keys, message", [
    (b"Say one word.\\\rName\x1b\ra fish.", "Say one word.\nName\na fish."),
    ("Say 日本é\x7f\x7f語 to Zoë".encode(), "Say 日語 to Zoë"),
    (b"Kame fish" + HOME + DELETE + b"N" + RIGHT * 3 + b" one" + END + b"k" + LEFT + DELETE + b".", "Name one fish."),
    (b"/exit\x15Name one big\x1b[15~ \x1b[1;2P\x1b[1;5D\x17two \x05\x7f\x17fish.", "Name two fish."),
    (b"ame one fish.\x01N", "Name one fish."),
])
def test_keys(run, binary, smollm2, keys, message):
    chat = Chat(binary, smollm2, *GREEDY)
    assert chat.say(keys) == generate(run, smollm2, message) + "\n"
    chat.end()


def test_ctrl_d_during_an_answer_ends_behind_it(binary, smollm2):
    chat = Chat(binary, smollm2, *GREEDY)
    chat.send(b"Name a colour.")
    chat.type(b"\x04")
    code, output = chat.finish()
    assert code == 0 and output.count(PROMPT.decode()) == 2


def test_up_brings_back_what_was_sent(run, binary, smollm2):
    first, second = "Name a colour.", "Name an animal."
    expected = run("chat", "-m", smollm2, *GREEDY, stdin="\n".join([first, second, second, first]).encode()).out
    chat = Chat(binary, smollm2, *GREEDY)
    answers = [chat.say(keys) for keys in (first.encode(), pasted(second.encode()), UP, UP * 2)]
    assert "".join(answers) == expected
    chat.end()


def test_ctrl_c_clears_the_line_and_keeps_the_conversation(run, binary, smollm2):
    first, second = "My name is Ann. Say hello to me.", "What is my name?"
    expected = run("chat", "-m", smollm2, *GREEDY, stdin=f"{first}\n{second}\n".encode()).out
    chat = Chat(binary, smollm2, *GREEDY)
    answers = chat.say(first.encode())
    for keys in (b"half a line\x03", b"\x03", pasted(b"two\rlines") + b"\x03"):
        chat.type(keys)
        chat.await_prompt()
    chat.child.send_signal(signal.SIGINT)
    chat.await_prompt()
    assert answers + chat.say(second.encode()) == expected
    assert chat.output.count(b"Ctrl-D or /exit ends") == 1
    chat.end()


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGHUP, None])
def test_a_signal_at_the_prompt_restores_the_terminal(binary, smollm2, signal_number):
    terminal = Terminal(["true"])
    before = termios.tcgetattr(terminal.master)
    terminal.finish()
    chat = Chat(binary, smollm2, *GREEDY)
    chat.type(b"half a line")
    assert termios.tcgetattr(chat.master) != before
    if signal_number is None:
        chat.type(b"\x1c")  # Ctrl-\
    else:
        chat.child.send_signal(signal_number)
    chat.read_until(lambda _: chat.child.poll() is not None)
    assert termios.tcgetattr(chat.master) == before
    code, output = chat.finish()
    assert code == 130 and output.endswith(PASTE_OFF.decode() + "\r\n")


def test_a_dumb_terminal_has_no_editor(run, binary, smollm2):
    terminal = Terminal([binary, "chat", "-m", smollm2, *GREEDY], env={"TERM": "dumb"})
    terminal.read_until(lambda output: output.endswith(b"> "))
    for n_prompts, keys in ((2, b"half a line\x03"), (3, b"Hello\n"), (4, b"/exit\n")):
        time.sleep(SAME_WISH_S)
        os.write(terminal.master, keys)
        terminal.read_until(lambda output, n=n_prompts: output.count(b"\n> ") == n)
    code, output = terminal.finish()
    assert code == 0 and "\x1b" not in output
    assert generate(run, smollm2, "Hello") in output.replace("\r\n", "\n")


def test_ctrl_c_stops_the_answer(binary, smollm2):
    chat = Chat(binary, smollm2, *LONG)
    for _ in range(2):
        chat.send(STORY)
        length = len(chat.output)
        chat.read_until(lambda output, begin=length: len(output) > begin + 150)
        os.write(chat.master, b"\x03")
        chat.await_prompt()
        os.write(chat.master, b"\x03")  # the key was hit twice: this one clears the line
        chat.await_prompt()
        time.sleep(SAME_WISH_S)
    assert b"^C\r\n" in chat.output
    chat.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_other_signals_end_the_program(binary, smollm2, number):
    """And Ctrl-C, where no person is there: a cut answer must not look like a whole one, nor be followed by others."""
    with subprocess.Popen([binary, "chat", "-m", smollm2, *LONG], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        child.stdin.write(STORY + b"\n")
        child.stdin.flush()
        assert child.stdout.read(1)
        child.send_signal(number)
        start = time.monotonic()
        child.stdout.read()
        assert child.wait(30) == 130 and time.monotonic() - start < 20


def test_a_closed_pipe_ends_quietly(binary, smollm2):
    with subprocess.Popen([binary, "chat", "-m", smollm2, *LONG], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        child.stdin.write(STORY + b"\n")
        child.stdin.flush()
        assert child.stdout.read(1)
        child.stdout.close()
        child.stdin.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 1
