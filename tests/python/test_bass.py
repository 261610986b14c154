"""The Python module, as it was built: PYTHONPATH names its folder, BASS_BINARY the program, and BASS_TEST_MODEL the
default model's file, for what takes long enough to be interrupted."""
import asyncio
import gc
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import bass
import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests" / "data" / "tiny" / "tiny_gqa_tied_q4_1.gguf"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
SMOLLM2 = os.environ.get("BASS_TEST_MODEL") or str(CACHE / "bass" / "SmolLM2-135M-Instruct.Q4_1.gguf")
LONG = {"max_tokens": 100000, "ignore_eos": True}  # ends with the context, in minutes


@pytest.fixture(scope="module")
def engine():
    with bass.Engine(TINY) as engine:
        yield engine


@pytest.fixture(scope="module")
def slow_engine():
    with bass.Engine(SMOLLM2) as engine:
        yield engine


@pytest.fixture
def smollm2_by_name(tmp_path, monkeypatch):
    """Has the model's name mean its file, wherever that is."""
    (tmp_path / "cache" / "bass").mkdir(parents=True)
    (tmp_path / "cache" / "bass" / "SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(pathlib.Path(SMOLLM2).absolute())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def program_json(*arguments):
    done = subprocess.run([os.environ["BASS_BINARY"], *arguments], capture_output=True, check=True)
    return json.loads(done.stdout)


def same_choice(choice, expected):
    assert (choice.text, choice.token_ids, choice.logprobs) == (
        expected["text"], expected["token_ids"], expected["logprobs"])
    assert (choice.index, choice.rank, choice.finish_reason) == (
        expected["index"], expected["rank"], expected["finish_reason"])
    assert choice.mean_logprob == expected["mean_logprob"]


# --- what is sampled


def test_a_seed_gives_what_the_program_gives(engine):
    expected = program_json("generate", "-m", TINY, "-p", "Some text", "-n", "5", "--max-tokens", "20", "--seed", "7",
                            "--json")["prompts"][0]
    completion = engine.generate("Some text", n=5, max_tokens=20, seed=7)
    assert completion.n_prompt_tokens == expected["n_prompt_tokens"]
    for choice, theirs in zip(completion.choices, expected["choices"], strict=True):
        same_choice(choice, theirs)
    assert completion.best.rank == 1
    assert [choice.rank for choice in completion.ranked] == [1, 2, 3, 4, 5]
    other = engine.generate("Some text", n=5, max_tokens=20, seed=8)
    assert [choice.token_ids for choice in other.choices] != [choice.token_ids for choice in completion.choices]


def test_prompts_are_lines_of_a_prompts_file(engine, tmp_path):
    prompts = [
        {"prompt": "One", "id": {"a": 1}},
        {"prompt": "Two", "seed": 3, "n": 2, "temperature": 1.5},
        {"prompt_tokens": [5, 6, 7], "max_tokens": 3, "logit_bias": {"9": 2.5}, "stop": ["x", "y"]},
        {"prompt": "Four", "top_logprobs": 2},
    ]
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    expected = program_json("generate", "-m", TINY, "--prompts", file, "--max-tokens", "10", "--seed", "1", "--json")
    completions = engine.generate(prompts, max_tokens=10, seed=1)
    assert [completion.index for completion in completions] == [0, 1, 2, 3]
    assert [completion.id for completion in completions] == [{"a": 1}, None, None, None]
    for completion, theirs in zip(completions, expected["prompts"], strict=True):
        for choice, their_choice in zip(completion.choices, theirs["choices"], strict=True):
            same_choice(choice, their_choice)
    top = completions[3].choices[0].top_logprobs
    assert len(top) == 10 and all(len(of_token) == 2 for of_token in top)
    assert [[list(pair) for pair in of_token] for of_token in top] == (
        expected["prompts"][3]["choices"][0]["top_logprobs"])


def test_the_engines_options_are_every_calls(engine):
    with bass.Engine(TINY, temperature=0, max_tokens=6, max_batch=2, threads=1) as greedy:
        assert greedy.info()["max_batch"] == 2
        first, second = greedy.generate(["Text"] * 2)
        assert first.choices[0].token_ids == second.choices[0].token_ids
        assert first.choices[0].token_ids == engine.generate("Text", temperature=0, max_tokens=6).choices[0].token_ids
        assert len(first.choices[0].token_ids) == 6
        assert len(greedy.generate("Text", max_tokens=2).choices[0].token_ids) == 2


def test_pieces_put_together_are_the_texts(engine):
    expected = engine.generate(["Some text", "more"], n=3, max_tokens=20, seed=7)
    texts, ids, logprobs, reasons = {}, {}, {}, {}
    for piece in engine.stream(["Some text", "more"], n=3, max_tokens=20, seed=7):
        key = (piece.prompt_index, piece.choice_index)
        assert reasons.get(key) is None
        texts[key] = texts.get(key, "") + piece.text
        ids[key] = ids.get(key, []) + piece.token_ids
        logprobs[key] = logprobs.get(key, []) + piece.logprobs
        reasons[key] = piece.finish_reason
    assert len(texts) == 6
    for completion in expected:
        for choice in completion.choices:
            key = (completion.index, choice.index)
            assert (texts[key], ids[key], logprobs[key], reasons[key]) == (
                choice.text, choice.token_ids, choice.logprobs, choice.finish_reason)


def test_a_conversation(slow_engine):
    messages = [{"role": "user", "content": "Say hello."}]
    expected = program_json("generate", "-m", SMOLLM2, "--chat", "-p", "Say hello.", "--max-tokens", "8", "--seed", "1",
                            "--json")["prompts"][0]["choices"][0]
    same_choice(slow_engine.chat(messages, max_tokens=8, seed=1).best, expected)
    assert slow_engine.chat(messages, max_tokens=8, seed=1, drafter="off").best.text == expected["text"]
    system = [{"role": "system", "content": "Be brief."}, *messages]
    brief = slow_engine.chat(system, max_tokens=8, seed=1)
    assert slow_engine.chat(messages, system="Be brief.", max_tokens=8, seed=1) == brief
    assert brief.prompt_token_ids != slow_engine.chat(messages, max_tokens=1).prompt_token_ids
    both = slow_engine.chat([messages, system], max_tokens=8, seed=0)
    assert both[1].best.token_ids == brief.best.token_ids, "the second conversation's seed is 1"


def test_tokens_and_scores(engine):
    ids = engine.tokenize("Some text")
    assert engine.detokenize(ids) == "Some text"
    assert engine.detokenize_bytes(numpy.array(ids)) == b"Some text"
    assert ids == program_json("tokenize", "-m", TINY, "-p", "Some text")
    expected = program_json("score", "-m", TINY, "-p", "Some text", "--json")
    score = engine.score("Some text")
    assert (score.ids, score.logprobs, score.perplexity) == (
        expected["ids"], expected["logprobs"], expected["perplexity"])
    assert [list(pair) for pair in score.last_top5] == expected["last_top5"]
    assert engine.score({"prompt_tokens": numpy.array(score.ids)}) == score
    others = [engine.score(text) for text in ("One", "Some other text", "x")]
    assert engine.score(["One", "Some text", "Some other text", "x"]) == [others[0], score, *others[1:]]


def test_what_the_model_would_read(slow_engine):
    messages = [{"role": "user", "content": "Say hello."}]
    ids = slow_engine.prompt_tokens({"messages": messages})
    assert ids == slow_engine.chat(messages, max_tokens=1).prompt_token_ids
    assert slow_engine.detokenize(ids).endswith("<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n")
    assert slow_engine.prompt_tokens(["Some text", {"prompt": "Say hello.", "chat": True}]) == [
        slow_engine.tokenize("Some text", add_special=True), ids]
    tools = [{"type": "function", "function": {"name": "now"}}]
    assert '{"name":"now"}' in slow_engine.detokenize(slow_engine.prompt_tokens({"messages": messages, "tools": tools}))
    assert len(slow_engine.prompt_tokens("word " * 100_000)) >= 100_000, "longer than the context"
    with pytest.raises(bass.InvalidArgumentError, match=r"prompts\[1\].*empty"):
        slow_engine.prompt_tokens(["a", ""])


def test_scores_know_nothing_of_samples(engine):
    with bass.Engine(TINY, time_budget=1e-9, n=3, max_tokens=50, stop="e", seed=1) as hasty:
        assert hasty.score("Some text") == engine.score("Some text")


def test_many_scores_leave_room_for_others(slow_engine):
    scores = []
    thread = threading.Thread(target=lambda: scores.extend(slow_engine.score(["word " * 100] * 150)))
    thread.start()
    time.sleep(0.5)
    assert slow_engine.generate("a", max_tokens=2).best.token_ids
    assert not scores, "it had to wait for all of them"
    thread.join()
    assert len(scores) == 150


def test_token_ids_go_in_and_come_out(engine):
    ids = engine.tokenize("Some text", add_special=True)
    expected = engine.generate("Some text", seed=1, max_tokens=5)
    assert expected.prompt_token_ids == ids and expected.n_prompt_tokens == len(ids)
    for prompt in (ids, tuple(ids), numpy.array(ids), {"prompt_tokens": iter(ids)}):
        completion = engine.generate([prompt], seed=1, max_tokens=5)[0]
        assert completion == expected


# --- jobs


def test_a_job_gives_each_prompt_as_it_ends(engine):
    job = engine.submit([{"prompt": "long", "max_tokens": 200}, {"prompt": "short", "max_tokens": 1}], ignore_eos=True)
    assert [completion.index for completion in job] == [1, 0]
    assert job.is_done()
    assert job.next() is None and list(job) == []


def test_a_job_that_is_cancelled_keeps_what_it_has(slow_engine):
    job = slow_engine.submit(["a", "b"], **LONG)
    with pytest.raises(TimeoutError):
        job.next(timeout=0.3)
    with pytest.raises(ValueError):
        job.next(timeout="soon")
    job.cancel()
    completions = list(job)
    assert [completion.choices[0].finish_reason for completion in completions] == ["cancelled"] * 2
    assert any(completion.choices[0].token_ids for completion in completions)


def runs_nothing(engine):
    """Whether the engine has come to rest."""
    for _ in range(100):
        steps = engine.stats()["steps"]
        time.sleep(0.1)
        if engine.stats()["steps"] == steps:
            return True
    return False


def test_what_nobody_holds_any_more_is_cancelled(slow_engine):
    for piece in slow_engine.stream("a", **LONG):
        assert piece.finish_reason is None
        break
    pieces = slow_engine.stream("b", **LONG)
    job = slow_engine.submit("c", **LONG)
    del piece, pieces, job
    gc.collect()
    assert runs_nothing(slow_engine)
    running = slow_engine.submit("d", **LONG)
    steps = slow_engine.stats()["steps"]
    time.sleep(1)
    assert slow_engine.stats()["steps"] > steps, "the control: what is held runs"
    running.cancel()


def test_a_time_budget(slow_engine):
    start = time.monotonic()
    completion = slow_engine.generate("a", time_budget=0.3, **LONG)
    assert completion.best.finish_reason == "deadline" and completion.best.token_ids
    assert time.monotonic() - start < 30


def test_async_iteration(engine):
    async def indices():
        jobs = [engine.submit(["a", "b"], max_tokens=5), engine.submit("c", max_tokens=5)]

        async def take(job):
            return [completion.index async for completion in job]

        return await asyncio.gather(*(take(job) for job in jobs))

    first, second = asyncio.run(indices())
    assert sorted(first) == [0, 1] and second == [0]


def test_a_task_that_is_cancelled_loses_nothing(engine):
    async def indices():
        job = engine.submit([f"Text {i}" for i in range(40)], max_tokens=20, ignore_eos=True)
        found = []
        while not job.is_done():
            try:
                found.append((await asyncio.wait_for(anext(job), 0.01)).index)
            except asyncio.TimeoutError:
                continue
        return found

    assert sorted(asyncio.run(indices())) == list(range(40))


def test_asyncio(slow_engine):
    async def run():
        expected = slow_engine.generate("Some text", max_tokens=10, seed=1)
        assert await slow_engine.generate_async("Some text", max_tokens=10, seed=1) == expected
        assert await slow_engine.generate_async(["Some text"], max_tokens=10, seed=1) == [expected]
        pieces = [piece async for piece in slow_engine.stream("Some text", max_tokens=10, seed=1)]
        assert "".join(piece.text for piece in pieces) == expected.best.text
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(slow_engine.generate_async("a", **LONG), 0.2)
        assert runs_nothing(slow_engine)

    asyncio.run(run())


def test_threads_share_a_batch(engine):
    prompts = [f"Text {i}" for i in range(8)]
    alone = [engine.generate(prompt, n=2, max_tokens=30, seed=i) for i, prompt in enumerate(prompts)]
    together = [None] * len(prompts)

    def run(i):
        together[i] = engine.generate(prompts[i], n=2, max_tokens=30, seed=i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_other_threads_go_on_meanwhile(slow_engine):
    n_turns = 0
    is_over = threading.Event()

    def count():
        nonlocal n_turns
        while not is_over.is_set():
            n_turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    slow_engine.generate("a", time_budget=0.5, **LONG)
    is_over.set()
    thread.join()
    assert n_turns > 20


# --- errors


@pytest.mark.parametrize("call, type_, text", [
    (lambda e: e.generate("x", max_token=3), bass.InvalidArgumentError, "did you mean max_tokens?"),
    (lambda e: e.generate("x", max_batch=3), bass.InvalidArgumentError, "bass.Engine(...)"),
    (lambda e: e.generate("x", quiet=True), bass.InvalidArgumentError, "no such option"),
    (lambda e: e.generate("x", temperature=-1), ValueError, "must be >= 0"),
    (lambda e: e.generate("x", temperature=float("nan")), ValueError, "temperature: nan is no number that it can be"),
    (lambda e: e.generate("x", seed=2**64), ValueError, f"seed: {2**64} is more than 64 bits hold, {2**64 - 1}"),
    (lambda e: e.generate("x", stop=object()), ValueError, "object"),
    (lambda e: e.generate("x", drafter="model"), ValueError, "draft="),
    (lambda e: e.generate(["a", ""]), ValueError, 'prompts[1]: "prompt" is empty'),
    (lambda e: e.generate(["a", 3]), ValueError, "prompts[1]: int is no prompt"),
    (lambda e: e.generate([1, 2, 3]), ValueError, "prompts[0]: int is no prompt; a single prompt of token ids is a list in a list"),
    (lambda e: e.generate(None), ValueError, "prompts: NoneType is no prompt; give a text"),
    (lambda e: e.score(5), ValueError, "prompts: int is no prompt"),
    (lambda e: e.generate([1, 2]), ValueError, "prompt_tokens"),
    (lambda e: e.generate([b"text"]), ValueError, "bytes is no prompt"),
    (lambda e: e.generate(b"text"), ValueError, "prompts: bytes is no text; decode it first"),
    (lambda e: e.generate([[1, 2.5]]), ValueError, "prompts[0]: 2.5 is no token id; give a text"),
    (lambda e: e.generate([[1, True]]), ValueError, "prompts[0]: True is no token id"),
    (lambda e: e.generate([[10**30]]), ValueError, f"prompts[0]: {10**30} is no token id"),
    (lambda e: e.chat("hi"), ValueError, "messages: must be a list"),
    (lambda e: e.chat({"role": "user", "content": "hi"}), ValueError, "messages: must be a list"),
    (lambda e: e.score({"prompt": "x", "n": 4}), ValueError, "prompt has no such option"),
    (lambda e: e.score(["x", ""]), ValueError, "prompts[1]: "),
    (lambda e: e.tokenize(b"a"), TypeError, "must be a str"),
    (lambda e: e.prompt_tokens({"prompt": "a", "n": 2}), ValueError, "n"),
    (lambda e: e.generate({"role": "user", "content": "x"}), ValueError, '{"messages": [...]}'),
    (lambda e: e.generate({"prompt": "x", "max_token": 3}), ValueError, "did you mean max_tokens?"),
    (lambda e: e.generate({"prompt_tokens": []}), ValueError, "not empty"),
    (lambda e: e.generate({"prompt_tokens": [1.5]}), ValueError, "1.5 is no token id"),
    (lambda e: e.generate({"prompt_tokens": [10**6]}), ValueError, "1000000"),
    (lambda e: e.generate({"prompt_tokens": [1], "prompt": "x"}), ValueError, '"prompt": has no place'),
    (lambda e: e.generate("half \ud800"), ValueError, "surrogates"),
    (lambda e: e.tokenize("half \ud800"), ValueError, "surrogates"),
    (lambda e: e.generate("x" * 100000), ValueError, "shorten the prompt"),
    (lambda e: e.detokenize([10**6]), ValueError, "1000000"),
    (lambda e: e.detokenize([10**30]), ValueError, "no token id"),
    (lambda e: e.detokenize(["a"]), TypeError, "str"),
    (lambda e: bass.Engine("no_such_model.gguf"), OSError, "no_such_model.gguf"),
    (lambda e: bass.Engine(ROOT / "README.md"), bass.InvalidFileError, "README.md"),
    (lambda e: bass.Engine(TINY, thread=3), bass.InvalidArgumentError, "did you mean threads?"),
    (lambda e: bass.Engine(TINY, json=True), bass.InvalidArgumentError, "no such option"),
    (lambda e: bass.Engine(TINY, kv_memory=10**9), ValueError, "kv_memory 1000000000: "),
])
def test_errors_name_the_thing_and_the_mend(engine, call, type_, text):
    with pytest.raises(type_) as error:
        call(engine)
    assert text in str(error.value)
    assert engine.generate("still there", max_tokens=1).choices[0].token_ids


def test_memory_that_does_not_suffice():
    script = ("import bass, resource\n"
              "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
              "resource.setrlimit(resource.RLIMIT_AS, (used + (50 << 20), resource.RLIM_INFINITY))\n"
              f"try: bass.Engine({SMOLLM2!r})\n"
              "except MemoryError as error: print(type(error).__name__, error)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert re.match(r"ResourceExhaustedError .*gguf: cannot map its \d+ bytes", done.stdout)


def test_no_prompts_are_no_completions(engine):
    assert engine.generate([]) == []


def test_an_engine_that_was_closed():
    engine = bass.Engine(TINY)
    job = engine.submit("a", max_tokens=50, ignore_eos=True)
    engine.close()
    engine.close()
    assert job.next().choices[0].finish_reason in ("cancelled", "length")
    with pytest.raises(bass.UnavailableError, match="was closed"):
        engine.generate("a")


def test_closing_beside_calls_of_other_threads():
    for _ in range(100):
        engine = bass.Engine(TINY, threads=1)
        n_refused = []

        def work(engine=engine, n_refused=n_refused):
            try:
                while True:
                    engine.tokenize("abc")
                    engine.submit("a", max_tokens=1000, ignore_eos=True)
                    engine.stats()
            except bass.UnavailableError:
                n_refused.append(1)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        engine.close()
        for thread in threads:
            thread.join()
        assert len(n_refused) == 3


@pytest.mark.parametrize("call, outcome", [
    (lambda engine: engine.generate("a", **LONG).best.finish_reason, "cancelled"),
    (lambda engine: [piece.finish_reason for piece in engine.stream("a", **LONG)][-1], "cancelled"),
    (lambda engine: engine.score(["word " * 1000] * 200), "UnavailableError"),
])
def test_closing_ends_what_other_threads_wait_for(call, outcome):
    engine = bass.Engine(SMOLLM2)
    outcomes = []

    def work():
        try:
            outcomes.append(call(engine))
        except bass.Error as error:
            outcomes.append(type(error).__name__)

    thread = threading.Thread(target=work)
    thread.start()
    while engine.stats()["steps"] < 3:
        time.sleep(0.01)
    engine.close()
    thread.join(timeout=20)
    assert outcomes == [outcome]


@pytest.mark.parametrize("call", [
    lambda engine: engine.generate(["a", "b"], **LONG),
    lambda engine: list(engine.stream("a", **LONG)),
    lambda engine: list(engine.submit("a", **LONG)),
    lambda engine: engine.submit("a", **LONG).next(timeout=60),
    lambda engine: engine.submit(["word " * 1000] * 3000, **LONG),
    lambda engine: engine.score(["word " * 1000] * 1000),
])
def test_ctrl_c_ends_a_call_and_not_the_engine(slow_engine, call):
    was = signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's `command &` ignores it
    try:
        timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            call(slow_engine)
        assert time.monotonic() - start < 5
    finally:
        timer.join()
        signal.signal(signal.SIGINT, was)
    assert runs_nothing(slow_engine)
    assert slow_engine.generate("a", max_tokens=2).best.token_ids


def test_a_forked_process_is_told(engine):
    job = engine.submit("a", max_tokens=5)
    child = os.fork()
    if child == 0:
        told = 0
        for call in (lambda: engine.generate("a"), job.next, engine.info):
            try:
                call()
            except bass.UnavailableError:
                told += 1
        engine.close()
        os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert len(job.next().choices[0].token_ids) <= 5


def test_a_program_ends_with_an_engine_that_runs():
    script = (f"import bass; e = bass.Engine({SMOLLM2!r}); j = e.submit('a', max_tokens=100000, ignore_eos=True);"
              "p = e.stream('b', max_tokens=100000); next(p); print('end')")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.parametrize("call", [
    "list(e.stream('a', max_tokens=100000, ignore_eos=True))",
    "e.generate('a', max_tokens=100000, ignore_eos=True)",
    "[e.submit('a', max_tokens=1) for _ in iter(int, 1)]",
    "[e.score('a ' * 100) for _ in iter(int, 1)]",
    "[e.tokenize('a ' * 10000) for _ in iter(int, 1)]",
])
def test_a_program_ends_while_a_daemon_thread_waits(call):
    script = (f"import bass, threading, time; e = bass.Engine({SMOLLM2!r})\n"
              "def work():\n"
              f"  try: {call}\n"
              "  except bass.UnavailableError: pass\n"  # it was closed
              "threading.Thread(target=work, daemon=True).start(); time.sleep(.3); print('end')")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


# --- the package


def test_documentation_has_all_options():
    from bass import options
    for name in (*options.ENGINE_OPTIONS, *options.REQUEST_OPTIONS):
        assert f"\n    {name}: " in bass.Engine.__doc__
    assert {"model", "draft", "threads", "kv_memory"} <= set(options.ENGINE_OPTIONS)
    assert {"n", "seed", "temperature", "stop", "verify"} <= set(options.REQUEST_OPTIONS)
    assert not {"json", "prompts", "file", "results"} & {*options.ENGINE_OPTIONS, *options.REQUEST_OPTIONS}


def test_python_without_docstrings():
    script = "import bass; print(bass.Engine.__doc__)"
    done = subprocess.run([sys.executable, "-OO", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_the_program_comes_with_it():
    version = [os.environ["BASS_BINARY"], "--version"]
    run = {"capture_output": True, "text": True, "check": False}
    by_module = subprocess.run([sys.executable, "-m", "bass", "--version"], **run)
    assert by_module.stdout == subprocess.run(version, **run).stdout
    assert bass.__version__ in by_module.stdout
    assert subprocess.run([sys.executable, "-m", "bass", "generat"], **run).returncode == 2
    not_utf8 = ["tokenize", "-m", TINY, "-p", b"caf\xe9"]
    by_module = subprocess.run([sys.executable, "-m", "bass", *not_utf8], **run)
    by_itself = subprocess.run([os.environ["BASS_BINARY"], *not_utf8], **run)
    assert (by_module.returncode, by_module.stdout) == (by_itself.returncode, by_itself.stdout)


@pytest.mark.usefixtures("smollm2_by_name")
def test_installed_without_the_tree(tmp_path):
    """What the wheel takes: the module, its Python files and the drafts that come with models."""
    build = pathlib.Path(bass.__file__).absolute().parents[2]
    site = tmp_path / "site"
    subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", site], check=True,
                   capture_output=True)
    script = "import bass, json; print(json.dumps([bass.__file__, bass.Engine('smollm2').info()['draft']['path']]))"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout) == [str(site / "bass" / "__init__.py"),
                                       str(site / "bass" / "models" / "smollm2-135m-draft.gguf")]


@pytest.mark.usefixtures("smollm2_by_name")
def test_examples_of_the_documentation_run():
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("## From Python")[1].split("## As a library")[0]
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8") + readme
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) >= 5
    namespace = {}
    for example in examples:
        exec(example, namespace)  # noqa: S102 (each goes on from those before)


def test_answers_follow_a_schema_in_its_order(engine):
    schema = {"type": "object", "properties": {"zebra": {"type": "boolean"}, "ant": {"enum": [1, 22]}}, "required": ["zebra", "ant"]}
    for completion in engine.generate(["One", {"prompt": "Two", "json_schema": json.dumps(schema)}], n=3, seed=2, max_tokens=60,
                                      json_schema=schema):
        for choice in completion.choices:
            assert choice.finish_reason == "stop"
            assert list(json.loads(choice.text)) == ["zebra", "ant"]


def test_answers_match_a_pattern(engine):
    drafted = engine.generate("A number:", n=4, seed=3, max_tokens=40, regex="[0-9]{3}-[0-9]{2}")
    assert all(re.fullmatch("[0-9]{3}-[0-9]{2}", choice.text) for choice in drafted.choices)
    regular = engine.generate("A number:", n=4, seed=3, max_tokens=40, regex="[0-9]{3}-[0-9]{2}", drafter="off")
    assert [choice.text for choice in drafted.choices] == [choice.text for choice in regular.choices]
    with pytest.raises(bass.InvalidArgumentError, match="regex"):
        engine.generate("A number:", regex="(")
