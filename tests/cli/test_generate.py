"""`bass generate`: what it prints, and the JSON of docs/command_line.md."""
import json
import os
import pathlib
import resource
import subprocess

import pytest
from result_schema import SCHEMA, check_schema


def property_names(schema):
    """Of all objects in it."""
    if isinstance(schema, list):
        return {name for part in schema for name in property_names(part)}
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", {})) | {name for part in schema.values() for name in property_names(part)}


def test_the_page_names_every_field_of_the_json():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")
    names = property_names(SCHEMA)
    assert len(names) > 60
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def check_json(done):
    """Everything that docs/command_line.md says of the object and that holds for every run."""
    assert done.code == 0, done.err
    result = done.json()
    check_schema(result)
    n_tokens = 0
    for prompt in result["prompts"]:
        choices = prompt["choices"]
        assert [choice["index"] for choice in choices] == list(range(len(choices)))
        assert sorted(choice["rank"] for choice in choices) == list(range(1, len(choices) + 1))
        ranked = sorted(choices, key=lambda choice: choice["rank"])
        keys = [(choice["finish_reason"] not in ("stop", "length"), -(choice["mean_logprob"] or -1e9)) for choice in ranked]
        assert keys == sorted(keys)
        for choice in choices:
            assert len(choice["token_ids"]) == len(choice["logprobs"])
            n_tokens += len(choice["token_ids"])
            if choice["logprobs"]:
                assert choice["mean_logprob"] == pytest.approx(sum(choice["logprobs"]) / len(choice["logprobs"]))
    usage, timing, speculation = result["usage"], result["timing"], result["speculation"]
    assert usage["completion_tokens"] == n_tokens
    assert usage["prompt_tokens"] == sum(prompt["n_prompt_tokens"] for prompt in result["prompts"])
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert timing["tokens_per_s"] == pytest.approx(n_tokens / timing["total_s"])
    histogram = {int(length): n for length, n in speculation["draft_length_histogram"].items()}
    assert sum(n for length, n in histogram.items() if length > 0) == speculation["rounds"]
    assert sum(length * n for length, n in histogram.items()) == speculation["drafted"]
    assert speculation["accepted"] <= speculation["drafted"]
    if speculation["rounds"]:
        rounds, accepted = speculation["rounds"], speculation["accepted"]
        assert speculation["acceptance_rate"] == pytest.approx(accepted / speculation["drafted"])
        assert speculation["mean_accepted_len"] == pytest.approx(accepted / rounds)
        assert speculation["tokens_per_round"] == pytest.approx((accepted + rounds) / rounds)
    return result


def texts(result):
    return [[choice["text"] for choice in prompt["choices"]] for prompt in result["prompts"]]


def token_ids(result):
    return [[choice["token_ids"] for choice in prompt["choices"]] for prompt in result["prompts"]]


def test_top_log_probabilities(run, tiny):
    options = ["-m", tiny, "-p", "I think", "-n", "2", "--max-tokens", "12", "--seed", "4", "--ignore-eos", "--json"]
    plain = check_json(run("generate", *options))["prompts"][0]["choices"]
    told = check_json(run("generate", *options, "--top-logprobs", "4"))["prompts"][0]["choices"]
    for choice, other in zip(told, plain, strict=True):
        top = choice.pop("top_logprobs")
        assert choice == other
        assert [len(places) for places in top] == [4] * 12
        for token, logprob, places in zip(choice["token_ids"], choice["logprobs"], top, strict=True):
            assert places == sorted(places, key=lambda place: -place[1])
            known = dict(places)
            assert known.get(token, logprob) == pytest.approx(logprob, abs=1e-5)
            assert token in known or logprob <= places[-1][1]
    assert run("generate", *options, "--top-logprobs", "21").code == 2


@pytest.mark.parametrize("options", [
    [], ["--drafter", "off"], ["--draft-length", "fixed:3"], ["--temperature", "0"], ["-n", "5", "--top-p", "0.9"],
    ["--ignore-eos", "--seed", "3"], ["--attention", "pad", "--threads", "2"],
])
def test_json(run, tiny, options):
    result = check_json(run("generate", "-m", tiny, "-p", "hello world", "--max-tokens", "20", "--json", *options))
    assert result["model"] == tiny and result["draft"] is None


def test_json_with_a_draft(run, tiny):
    result = check_json(run("generate", "-m", tiny, "-d", tiny, "--drafter", "model", "-p", "hello", "--max-tokens", "40",
                            "--draft-length", "fixed:4", "--temperature", "0", "--ignore-eos", "--json"))
    assert result["draft"] == tiny
    assert result["speculation"]["rounds"] > 0
    assert result["speculation"]["acceptance_rate"] == 1, "a model agrees with itself"


def test_drafting_off_drafts_nothing(run, tiny):
    result = check_json(run("generate", "-m", tiny, "-p", "aaaaaaaa", "--max-tokens", "30", "--drafter", "off", "--json"))
    assert result["speculation"]["rounds"] == 0
    assert result["speculation"]["acceptance_rate"] is None


def test_a_seed_repeats_the_bytes(run, tiny):
    first = ["generate", "-m", tiny, "-p", "hello", "-n", "4", "--max-tokens", "30", "--seed", "7", "--json"]
    once = check_json(run(*first))
    assert token_ids(once) == token_ids(check_json(run(*first)))
    assert token_ids(once) == token_ids(check_json(run(*first, "--drafter", "off")))
    assert token_ids(once) != token_ids(check_json(run(*first[:-3], "--seed", "8", "--json")))


def test_without_a_seed_runs_differ(run, tiny):
    arguments = ["generate", "-m", tiny, "-p", "hello", "--max-tokens", "30", "--ignore-eos", "--json"]
    assert token_ids(check_json(run(*arguments))) != token_ids(check_json(run(*arguments)))


def test_prompts_file(run, tiny, tmp_path):
    lines = [{"prompt": "one", "id": "a"}, {"prompt": "two", "n": 3, "max_tokens": 5, "id": {"x": [1]}},
             {"prompt": "three", "seed": 12, "ignore_eos": True, "max_tokens": 9}]
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    result = check_json(run("generate", "-m", tiny, "--prompts", "p.jsonl", "--max-tokens", "7", "--seed", "10", "--json"))
    assert [prompt["index"] for prompt in result["prompts"]] == [0, 1, 2]
    assert [prompt.get("id", "none") for prompt in result["prompts"]] == ["a", {"x": [1]}, "none"]
    assert [len(prompt["choices"]) for prompt in result["prompts"]] == [1, 3, 1]
    assert len(result["prompts"][2]["choices"][0]["token_ids"]) == 9
    assert all(len(choice["token_ids"]) <= 5 for choice in result["prompts"][1]["choices"])

    # prompt j uses seed N + j; a line's own seed is used as it is
    def alone(prompt, seed, *options):
        return token_ids(check_json(run("generate", "-m", tiny, "-p", prompt, "--seed", seed, "--json", *options)))[0]

    together = token_ids(result)
    assert together[0] == alone("one", "10", "--max-tokens", "7")
    assert together[1] == alone("two", "11", "-n", "3", "--max-tokens", "5")
    assert together[2] == alone("three", "12", "--ignore-eos", "--max-tokens", "9")


def test_a_line_may_be_a_conversation(run, smollm2, tmp_path):
    system, question = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}
    lines = [{"prompt": question["content"], "messages": None, "chat": True, "system": system["content"], "seed": 1},
             {"messages": [system, question], "prompt": None, "seed": 1, "id": 7},
             {"messages": [system, question, {"role": "assistant", "content": "Red."},
                           {"role": "user", "content": "Another one."}], "seed": 1}]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    # The command line's system message is one of prompts, not of whole conversations.
    done = run("generate", "-m", smollm2, "--chat", "--system", "Be long.", "--prompts", "prompts.jsonl", "--max-tokens", "8",
               "--json")
    one, same, longer = check_json(done)["prompts"]
    assert same["id"] == 7 and same["choices"] == one["choices"]
    assert same["n_prompt_tokens"] == one["n_prompt_tokens"] < longer["n_prompt_tokens"]


def test_tools_are_told_to_the_model(run, smollm2, tmp_path):
    tools = [{"type": "function", "function": {"name": "now", "description": "the time"}}]
    question = {"role": "user", "content": "What time is it?"}
    call = {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    lines = [{"messages": [question]}, {"messages": [question], "tools": tools}, {"messages": [question], "tools": json.dumps(tools)},
             {"messages": [question, {"role": "assistant", "content": None, "tool_calls": [call]},
                           {"role": "tool", "tool_call_id": "a", "content": "noon"}], "tools": tools}]
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    n = [prompt["n_prompt_tokens"] for prompt in
         run("generate", "-m", smollm2, "--prompts", path, "--max-tokens", "1", "--json").json()["prompts"]]
    assert n[0] + 20 < n[1] == n[2] < n[3]
    asked = run("generate", "-m", smollm2, "--chat", "-p", question["content"], "--tools", json.dumps(tools), "--max-tokens", "1", "--json")
    assert asked.json()["prompts"][0]["n_prompt_tokens"] == n[1]
    for options, message in [(("--tools", "[]", "--chat"), "--tools []: must be a list of 1 to 1024 functions"),
                             (("--tools", "[{}]", "--chat"), "[0]: must be like"),
                             (("--tools", json.dumps(tools)), "tools: has a place in chats alone")]:
        refused = run("generate", "-m", smollm2, "-p", "a", *options)
        assert refused.code == 2 and message in refused.err


def test_variables_of_the_template(run, smollm2):
    chat = ("generate", "-m", smollm2, "--chat", "-p", "Hi", "--max-tokens", "1", "--json")
    plain, unused = (run(*chat, *more).json()["prompts"][0] for more in ((), ("--chat-template-kwargs", '{"enable_thinking": false}')))
    assert unused["n_prompt_tokens"] == plain["n_prompt_tokens"], "this template does not ask for it"
    lines = [{"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"enable_thinking": False}}, {"prompt": "Hi", "chat": True}]
    done = run("generate", "-m", smollm2, "--prompts", "-", "--max-tokens", "1", "--json", stdin="\n".join(map(json.dumps, lines)).encode())
    assert [prompt["n_prompt_tokens"] for prompt in check_json(done)["prompts"]] == [plain["n_prompt_tokens"]] * 2
    for options, message in [(("--chat", "--chat-template-kwargs", "[]"), "--chat-template-kwargs []: must be an object"),
                             (("--chat", "--chat-template-kwargs", '{"tools": []}'), '"tools": is what the request says itself'),
                             (("--chat-template-kwargs", "{}"), "chat_template_kwargs: has a place in chats alone")]:
        refused = run("generate", "-m", smollm2, "-p", "a", *options)
        assert refused.code == 2 and message in refused.err, refused.err
    refused = run("tokenize", "-m", smollm2, "-p", "a", "--chat-template-kwargs", "{}")
    assert refused.code == 2 and "belong to --chat" in refused.err


def test_a_line_may_switch_chat_off(run, smollm2):
    lines = [{"prompt": "Hi"}, {"prompt": "Hi", "chat": False}, {"prompt": "Hi", "system": None}]
    done = run("generate", "-m", smollm2, "--chat", "--system", "Be", "--prompts", "-", "--max-tokens", "1", "--json",
               stdin="\n".join(map(json.dumps, lines)).encode())
    n_tokens = [prompt["n_prompt_tokens"] for prompt in check_json(done)["prompts"]]

    def alone(*options):
        done = run("generate", "-m", smollm2, "-p", "Hi", "--max-tokens", "1", "--json", *options)
        return check_json(done)["prompts"][0]["n_prompt_tokens"]

    assert n_tokens == [alone("--chat", "--system", "Be"), alone(), alone("--chat")]
    assert len(set(n_tokens)) == 3
    done = run("generate", "-m", smollm2, "--chat", "--prompts", "-", stdin=b'{"prompt": "Hi", "chat": false, "system": "Be"}')
    assert done.code == 2 and 'add "chat": true' in done.err


def test_a_line_may_do_without_the_seed(run, tiny):
    lines = b'{"prompt": "hello", "seed": null}\n{"prompt": "hello", "seed": 1}'
    runs = [check_json(run("generate", "-m", tiny, "--prompts", "-", "--seed", "1", "--ignore-eos", "--max-tokens", "30",
                           "--json", stdin=lines)) for _ in range(2)]
    assert token_ids(runs[0])[0] != token_ids(runs[1])[0] and token_ids(runs[0])[1] == token_ids(runs[1])[1]


def test_a_broken_cache_of_the_machines_speed_is_no_error(run, tiny, tmp_path):
    (tmp_path / "bass").mkdir()
    for broken in ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "[1]", ""):
        (tmp_path / "bass" / "machine.json").write_text(broken)
        done = run("generate", "-m", tiny, "-p", "hello", "--max-tokens", "2", env={"XDG_CACHE_HOME": str(tmp_path)})
        assert done.code == 0 and "utilisation" in done.err
        assert "peak_tops" in (tmp_path / "bass" / "machine.json").read_text()


def test_more_threads_than_processors_are_told(run, tiny):
    n_processors = len(os.sched_getaffinity(0))
    command = ["generate", "-m", tiny, "-p", "Some text", "--max-tokens", "2", "--seed", "1", "--json"]
    told = run(*command, "--threads", str(n_processors + 1))
    assert told.code == 0 and f"note: --threads {n_processors + 1}: there are " in told.err
    assert "--threads" not in run(*command, "--threads", "1").err
    assert "--threads" not in run(*command, "--quiet", "--threads", str(n_processors + 1)).err


def test_many_prompts_queue(run, tiny):
    lines = "".join(json.dumps({"prompt": f"prompt {i}", "id": i}) + "\n" for i in range(40))
    result = check_json(run("generate", "-m", tiny, "--prompts", "-", "--max-batch", "3", "--max-tokens", "5", "--json",
                            stdin=lines.encode()))
    assert [prompt["id"] for prompt in result["prompts"]] == list(range(40))


def test_prompt_from_a_file_and_from_a_pipe(run, tiny, tmp_path):
    (tmp_path / "prompt.txt").write_text("hello\n")
    options = ["--max-tokens", "5", "--seed", "1", "--json"]
    from_file = check_json(run("generate", "-m", tiny, "-f", "prompt.txt", *options))
    from_pipe = check_json(run("generate", "-m", tiny, "-f", "-", *options, stdin=b"hello\n"))
    from_option = check_json(run("generate", "-m", tiny, "-p", "hello\n", *options))
    assert token_ids(from_file) == token_ids(from_pipe) == token_ids(from_option)


@pytest.mark.parametrize("prompt", ["--help", "{}", "[a,b]", "%%", "-1", '"quoted"', "@file", "a=b"])
def test_prompts_that_look_like_something_else(run, tiny, prompt):
    result = check_json(run("generate", "-m", tiny, "-p", prompt, "--max-tokens", "2", "--json"))
    ids = run("tokenize", "-m", tiny, "-p", prompt).json()
    assert result["prompts"][0]["n_prompt_tokens"] == len(ids)


def test_ranked_text(run, tiny):
    done = run("generate", "-m", tiny, "-p", "hello", "-n", "3", "--max-tokens", "12", "--seed", "1")
    assert done.code == 0
    assert [line[:4] for line in done.out.splitlines() if line.startswith("[") and "] sample " in line] == ["[1] ", "[2] ", "[3] "]
    for word in ("tokens/s", "ms a token", "acceptance", "draft lengths", "utilisation"):
        assert word in done.err and word not in done.out


def test_quiet_prints_only_the_texts_best_first(run, tiny):
    arguments = ["generate", "-m", tiny, "-p", "hello", "-n", "3", "--max-tokens", "12", "--seed", "1"]
    choices = check_json(run(*arguments, "--json"))["prompts"][0]["choices"]
    done = run(*arguments, "--quiet")
    assert done.err == ""
    assert done.out == "".join(choice["text"] + "\n" for choice in sorted(choices, key=lambda choice: choice["rank"]))


def test_save_writes_what_json_prints(run, tiny, tmp_path):
    done = run("generate", "-m", tiny, "-p", "hello", "--max-tokens", "4", "--quiet", "--save", "out.json")
    assert done.code == 0
    check_schema(json.loads((tmp_path / "out.json").read_text()))


def test_save_replaces_the_file_that_a_link_names(run, tiny, tmp_path):
    (tmp_path / "old.json").write_text("old")
    (tmp_path / "old.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("old.json")
    arguments = ["generate", "-m", tiny, "-p", "hello", "--max-tokens", "4", "--quiet", "--save"]
    assert run(*arguments, "link.json").code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "old.json").read_text())["usage"]["completion_tokens"] > 0
    assert (tmp_path / "old.json").stat().st_mode & 0o777 == 0o640
    assert {path.name for path in tmp_path.iterdir()} == {"old.json", "link.json"}, "nothing is left behind"
    assert run(*arguments, os.devnull).code == 0 and not os.path.isfile(os.devnull)
    full = run(*arguments, "/dev/full")
    assert full.code == 1 and "--save /dev/full: cannot be written: No space left" in full.err


def test_file_size_limit(binary, tiny, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        done = subprocess.run([binary, "generate", "-m", tiny, "-p", "hello", "-n", "9", "--json"], stdout=out,
                              stderr=subprocess.PIPE, check=False, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
    assert done.returncode == 1, "a failed write, not a signal's death"
    assert b"standard output: File too large" in done.stderr


def test_show_drafts_without_a_terminal_uses_letters(run, tiny):
    done = run("generate", "-m", tiny, "-d", tiny, "-p", "hello", "--max-tokens", "12", "--ignore-eos", "--temperature", "0",
               "--draft-length", "fixed:4", "--show-drafts")
    assert done.code == 0
    letters = [line for line in done.out.splitlines() if line.startswith("tokens: ")]
    assert letters[0] == "tokens: A accepted draft, C correction, B bonus, . regular"
    assert len(letters[1]) == len("tokens: ") + 12 and "A" in letters[1]


def test_show_drafts_in_json_names_each_tokens_origin(run, tiny):
    arguments = ["generate", "-m", tiny, "-d", tiny, "-p", "hello", "--max-tokens", "12", "--ignore-eos", "--temperature", "0",
                 "--draft-length", "fixed:4", "--json"]
    with_origins = check_json(run(*arguments, "--show-drafts"))["prompts"][0]["choices"][0]
    assert len(with_origins["origins"]) == 12
    assert set(with_origins["origins"]) <= {"accepted", "correction", "bonus", "regular"}
    assert "accepted" in with_origins["origins"]
    assert "origins" not in check_json(run(*arguments))["prompts"][0]["choices"][0]


def test_stop_cuts_the_text_but_keeps_the_tokens(run, tiny):
    arguments = ["generate", "-m", tiny, "-p", "hello", "--max-tokens", "60", "--seed", "2", "--ignore-eos", "--json"]
    whole = check_json(run(*arguments))["prompts"][0]["choices"][0]
    stop = whole["text"][10:13]
    assert stop
    cut = check_json(run(*arguments, "--stop", stop))["prompts"][0]["choices"][0]
    assert cut["finish_reason"] == "stop"
    assert cut["text"] == whole["text"][:whole["text"].index(stop)]
    assert cut["token_ids"] == whole["token_ids"][:len(cut["token_ids"])]


def test_full_disk(run, tiny):
    with open("/dev/full", "wb") as full:
        done = run("generate", "-m", tiny, "-p", "hello", "--max-tokens", "3", stdout=full)
    assert done.code == 1
    assert "standard output" in done.err and "No space left" in done.err


@pytest.mark.parametrize("arguments", [["generate", "-p", "hello", "--max-tokens", "3"], ["tokenize", "-p", "hello"], ["info"]])
def test_a_closed_pipe_ends_quietly(binary, tiny, arguments):
    with subprocess.Popen([binary, *arguments, "-m", tiny], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        err = child.stderr.read()
        assert child.wait(60) == 1, "a failed write, not a signal's death"
        assert err == b"", "whoever closed it knows"


def test_time_budget(run, smollm2):
    done = run("generate", "-m", smollm2, "-p", "Once upon a time", "-n", "4", "--max-tokens", "4000", "--ignore-eos",
               "--context", "4200", "--time-budget", "1", "--json")
    result = check_json(done)
    choices = result["prompts"][0]["choices"]
    assert {choice["finish_reason"] for choice in choices} == {"deadline"}
    assert all(choice["token_ids"] for choice in choices), "what there is is returned"


def test_the_time_budget_of_many_prompts_is_one(run, tiny, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"hello {i} " * 8, "max_tokens": 2}) + "\n" for i in range(4000)))
    done = run("generate", "-m", tiny, "--prompts", prompts, "--time-budget", "0.1", "--json")
    result = done.json()
    assert done.code == 0 and len(result["prompts"]) == 4000
    last = result["prompts"][-1]["choices"][0]
    assert last["finish_reason"] == "deadline" and last["token_ids"] == []
    assert result["timing"]["total_s"] < 0.1 + 0.3, "each prompt's own would end after all had been submitted"


def test_no_control_characters_without_a_terminal(run, tiny):
    done = run("generate", "-m", tiny, "-p", "hello", "--max-tokens", "5", "--show-drafts", env={"TERM": "xterm"})
    assert "\x1b" not in done.err
    done = run("--help", env={"TERM": "xterm"})
    assert done.code == 0 and "\x1b" not in done.out
