"""Text in shards."""

import json
import os
import signal
import time
import types

import pytest
from conftest import TINY

from bass_draft.engine import Engine
from bass_draft.errors import UserError
from bass_draft.main_model import load_main_model
from bass_draft.prompt_tokens import PromptTokenizer
from bass_draft.prompts import Prompt
from bass_draft.text_shards import n_shards, read_shard

SMALL = ["--shard-prompts", 12, "--max-tokens", 12, "--max-batch", 4]


def shards(directory):
    return {path.name: path.read_bytes() for path in sorted((directory / "text").glob("*.jsonl"))}


def test_shards_hold_what_was_asked_for(bass, run, tiny, tmp_path):
    done = run(bass, "generate", "-m", tiny, "--work", tmp_path / "w", "--tokens", 200, *SMALL)
    assert done.code == 0, done.err
    texts = [
        text for index in range(n_shards(tmp_path / "w" / "text"))
        for text in read_shard(tmp_path / "w" / "text", index)
    ]
    assert sum(len(text.ids) for text in texts) >= 200
    assert {text.temperature for text in texts} == {0.0, 0.7, 1.0}
    assert all(text.prompt_ids for text in texts) and all(len(text.ids) <= 12 for text in texts)
    again = run(bass, "generate", "-m", tiny, "--work", tmp_path / "w", "--tokens", 200, *SMALL)
    assert again.code == 0 and n_shards(tmp_path / "w" / "text") * 12 == len(texts)


def test_killed_and_run_again_it_gives_the_same_data(bass, run, start, tiny, tmp_path):
    """kill -9 at several moments; also within the writing of a shard, which leaves a partial file."""
    arguments = ["generate", "-m", tiny, "--tokens", 1000, *SMALL]
    assert run(bass, *arguments, "--work", tmp_path / "a").code == 0
    expected = shards(tmp_path / "a")
    assert len(expected) >= 3
    work = tmp_path / "b"
    for n_wanted in (1, 2):
        process = start(bass, *arguments, "--work", work)
        while len(shards(work)) < n_wanted and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        (work / "text" / f".{n_wanted:05d}.jsonl.1.part").write_bytes(b'{"task": "ha')
    assert 1 <= len(shards(work)) < len(expected)
    assert run(bass, *arguments, "--work", work).code == 0
    assert shards(work) == expected
    assert not list((work / "text").glob(".*.part"))


def test_another_seed_gives_other_data_and_is_refused_in_the_same_folder(bass, run, tiny, tmp_path):
    arguments = ["generate", "-m", tiny, "--tokens", 10, *SMALL]
    assert run(bass, *arguments, "--work", tmp_path / "a").code == 0
    assert run(bass, *arguments, "--work", tmp_path / "b", "--seed", 2).code == 0
    assert shards(tmp_path / "a") != shards(tmp_path / "b")
    refused = run(bass, *arguments, "--work", tmp_path / "a", "--seed", 2)
    assert refused.code == 2 and "was begun with another seed" in refused.err


def test_prompts_of_a_file_come_first(bass, run, tiny, tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"prompt": "héllo <|im_end|> you", "task": "own", "chat": False}) + "\n"
                    + json.dumps({"prompt": "hello", "task": "own", "temperature": 0, "max_tokens": 3}) + "\n")
    done = run(bass, "generate", "-m", tiny, "--work", tmp_path / "w", "--tokens", 20, "--prompts", path, *SMALL)
    assert done.code == 0, done.err
    texts = read_shard(tmp_path / "w" / "text", 0)
    assert [text.task for text in texts[:3]].count("own") == 2 and len(texts[1].ids) <= 3


def test_errors(bass, run, tiny, tmp_path):
    work = ["--work", tmp_path / "w", "--tokens", 10]
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"prompt": "x"}\n{"promt": "x"}\n')
    for arguments, words in [
            (["-m", tiny, *work, "--prompts", bad], 'bad.jsonl:2: unknown key "promt"'),
            (["-m", tiny, *work, "--prompts", tmp_path / "none"], "none: No such file or directory"),
            (["-m", tiny, "--work", tmp_path / "w"], "give --tokens N or --hours H"),
            (["-m", tmp_path / "none.gguf", *work], "none.gguf: cannot open"),
            (["-m", TINY / "vocab_only.gguf", *work], "is this a whole model?"),
            (["-m", tiny, *work, "--bass", tmp_path / "no_bass"], "no_bass: there is no such program; build BASS")]:
        done = run(bass, "generate", *arguments)
        assert done.code == 2 and words in done.err and "Traceback" not in done.err, (words, done.err)


def test_another_program_is_no_engine(run, tiny, tmp_path):
    done = run("/bin/true", "generate", "-m", tiny, "--work", tmp_path / "w", "--tokens", 10)
    assert done.code == 2 and "true: does not answer `info` as BASS does" in done.err, done.err


def test_an_engine_that_fails_is_quoted(run, tiny, tmp_path):
    script = tmp_path / "broken"
    script.write_text('#!/bin/sh\necho "error: no memory" >&2\nexit 1\n')
    script.chmod(0o755)
    done = run(script, "generate", "-m", tiny, "--work", tmp_path / "w", "--tokens", 10)
    assert done.code == 1 and "`bass info` failed (1): error: no memory" in done.err
    script.write_text('#!/bin/sh\necho "error: x: No space left on device" >&2\nexit 1\n')
    done = run(script, "generate", "-m", tiny, "--work", tmp_path / "w", "--tokens", 10)
    assert done.code == 1 and "on device; free some space and run the same command again" in done.err


def test_prompt_tokens_are_those_of_the_engine(bass, tiny):
    """Against the engine one prompt at a time, whatever the way that many are tokenized together."""
    engine = Engine(str(bass), str(tiny))
    main = load_main_model(engine)
    texts = ["hello", " two  blanks ", "<|im_start|>a<|im_end|>", "héé\n\n", "contains <|endoftext|> itself", "x"]
    prompts = [Prompt("t", text, is_chat, 0.0, 1) for text in texts for is_chat in (True, False)]
    lines = [{"prompt": prompt.text, "chat": prompt.is_chat, "max_tokens": 1, "temperature": 0} for prompt in prompts]
    counts = [answer["n_prompt_tokens"] for answer in engine.generate(lines, 4)["prompts"]]
    ids = PromptTokenizer(engine, main).tokenize(prompts, counts)
    for prompt, found, count in zip(prompts, ids, counts):
        text = prompt.text if not prompt.is_chat else None
        assert len(found) == count
        if text is not None:
            assert found == engine.tokenize(text, add_special=True)


def texts_of(template, prompts):
    """What the tokenizer makes of prompts before their tokens are asked for."""
    main = types.SimpleNamespace(separators=lambda: [(0, "|")], chat_template=template, token_text=str, bos_id=1,
                                 eos_id=2)
    seen = []
    engine = types.SimpleNamespace(tokenize=lambda text, add_special: seen.append(text) or [])
    PromptTokenizer(engine, main).tokenize(prompts, [0] * len(prompts))
    return seen[0].split("|")


CHAT, PLAIN = Prompt("t", "<b> & 'ü'", True, 0.0, 1), Prompt("t", "plain", False, 0.0, 1)


@pytest.mark.parametrize("template, text", [
    ("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}!", CHAT.text + "!"),
    ("{{ {'z': messages[0].content, 'a': [1, 2]} | tojson }}", """{"z": "<b> & 'ü'", "a": [1, 2]}"""),
    ("{{ {'z': 'ü', 'a': 1} | tojson(ensure_ascii=true, separators=(',', ':'), sort_keys=true) }}", '{"a":1,"z":"\\u00fc"}'),
    ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]")])
def test_templates_say_what_they_say_in_the_engine(template, text):
    assert texts_of(template, [CHAT]) == [text]


@pytest.mark.parametrize("template", ["{% unknown %}", "{% if %}", "{{ none_such.x }}"])
def test_a_template_that_cannot_be_read_is_in_nobodys_way_without_chat(template):
    assert texts_of(template, [PLAIN]) == ["plain"]
    with pytest.raises(UserError, match="the model's chat template cannot be read .*; give --no-chat"):
        texts_of(template, [CHAT])


def test_many_prompts_take_few_runs_of_the_engine(bass, tiny, monkeypatch):
    engine = Engine(str(bass), str(tiny))
    main = load_main_model(engine)
    assert main.token_text(main.eos_id) in main.chat_template  # so it cannot stand between the prompts
    prompts = [Prompt("t", f"question {number}", True, 0.0, 1) for number in range(20)]
    lines = [{"prompt": prompt.text, "chat": True, "max_tokens": 1, "temperature": 0} for prompt in prompts]
    counts = [answer["n_prompt_tokens"] for answer in engine.generate(lines, 4)["prompts"]]
    n_runs = []
    monkeypatch.setattr(engine, "tokenize", lambda *args, **kwargs: n_runs.append(1) or Engine.tokenize(engine, *args, **kwargs))
    assert [len(ids) for ids in PromptTokenizer(engine, main).tokenize(prompts, counts)] == counts
    assert len(n_runs) <= 3


def test_a_bad_prompt_can_be_mended_where_it_is(bass, run, tiny, tmp_path):
    """The engine finds it out in its shard: the user's prompt is named, and what was generated before is kept."""
    prompts = tmp_path / "prompts.jsonl"
    lines = [json.dumps({"prompt": f"What is {i}?", "chat": False}) for i in range(14)]
    too_long = json.dumps({"prompt": "word " * 2000, "chat": False})
    arguments = ["generate", "-m", tiny, "--work", tmp_path / "w", "--tokens", 150, "--prompts", prompts, *SMALL]
    for bad in (3, 13):  # in the first shard, and in the second
        prompts.write_text("\n".join([*lines[:bad], too_long, *lines[bad:]]))
        done = run(bass, *arguments)
        assert done.code == 2 and f"{prompts}: prompt {bad + 1} ('word word" in done.err, done.err
        assert "standard input" not in done.err and "Traceback" not in done.err
    assert n_shards(tmp_path / "w" / "text") == 1
    first = shards(tmp_path / "w")
    prompts.write_text("\n".join(lines))
    done = run(bass, *arguments)
    assert done.code == 0, done.err
    assert first.items() <= shards(tmp_path / "w").items()
    assert [text.tokens for text in read_shard(tmp_path / "w" / "text", 1)]
    prompts.write_text("\n".join([too_long, *lines[1:]]))
    done = run(bass, *arguments)
    assert done.code == 2 and "was begun with another prompts" in done.err
