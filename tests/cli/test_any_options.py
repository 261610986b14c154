"""With a seed a request's answer is the same whatever the machine's options are and whatever runs beside it: requests and
options drawn at random, against a plain run (no drafts, one sequence at a time, one thread, the portable instructions; on
an emulated GPU where the cache is one's).

BASS_RANDOM_CASES=N draws N cases in place of a few, BASS_RANDOM_SEED=S others; a case's number is its seed, and fails
again by itself: BASS_RANDOM_SEED=<number> BASS_RANDOM_CASES=1."""
import json
import os
import random

import pytest
from conftest import DATA

FIRST = int(os.environ.get("BASS_RANDOM_SEED", "1"))
CASES = range(FIRST, FIRST + int(os.environ.get("BASS_RANDOM_CASES", "8")))
PLAIN = ["--drafter", "off", "--max-batch", "1", "--threads", "1", "--prefix-cache", "0"]
RUNS = 4  # of a case, each with other options

DRAFTS = {  # of each main model: itself, and what was made for it
    "tiny_gqa_tied_f32": ["tiny_gqa_tied_f32", "draft_feature_q8_0", "draft_shallow_f32", "draft_padded"],
    "tiny_gqa_tied_q8_0": ["tiny_gqa_tied_q8_0"],
    "tiny_gqa_untied_q4_0": ["tiny_gqa_untied_q4_0"],
    "tiny_mqa_tied_q6_k": ["tiny_mqa_tied_q6_k"],
}
PROMPTS = ["The cat sat on the mat. ", "def f(x):\n    return x", "1, 2, 3, 4, ", "\u00e9\u4e16\u754c ", '{"a": ']
GRAMMARS = [{"json_schema": {"type": "boolean"}},
            {"json_schema": {"type": "array", "items": {"enum": ["a", "bc", 3]}, "maxItems": 4}},
            {"json_schema": {"properties": {"kind": {"enum": ["cat", "dodo"]}, "n": {"type": "integer"}}, "required": ["kind"]}},
            {"regex": r"(the|and|ing)+(, [a-c]{2,9})*\."}, {"regex": ".{1,30}"}]
PROCESSORS = [{"top_p": 0.9}, {"top_k": 5}, {"min_p": 0.05}, {"repetition_penalty": 1.2}, {"frequency_penalty": 0.5},
              {"logit_bias": {"40": 3, "41": -5}}, {"stop": ["a"]}, {"stop_token_ids": [28, 30]}, {"min_tokens": 4, "max_tokens": 17},
              {"ignore_eos": True}, {"top_logprobs": 5}]


def tiny_file(name):
    return str(DATA / "tiny" / f"{name}.gguf")


def request(draw):
    asked = {"n": draw.choice([1, 1, 2, 5]), "max_tokens": draw.choice([1, 3, 17, 40]), "seed": draw.randrange(2**63),
             "prompt": draw.choice(PROMPTS) * draw.choice([1, 1, 2, 5]) + str(draw.randrange(3)),
             "temperature": draw.choice([0, 0.7, 1, 1.5])}
    for processor in draw.sample(PROCESSORS, draw.choice([0, 0, 1, 2, 4])):
        asked.update(processor)
    return {**asked, **(draw.choice(GRAMMARS) if draw.random() < 0.3 else {})}


def on_gpu(options, env):
    return [*options, "--device", "cuda"], {**env, "BASS_EMULATE_GPU": "1"}


def machine(draw, drafts, needs_gpu):
    """Options that change nothing of an answer, and the environment."""
    options = ["--max-batch", draw.choice([1, 2, 3, 7, 32]), "--threads", draw.choice([1, 2, 3]),
               "--max-step-tokens", draw.choice([16, 17, 64, 256]),
               "--attention", draw.choice(["fused", "split-grouped", "split", "pad"]),
               "--draft-length", draw.choice(["goodput", "fixed:1", "fixed:4", "fixed:9", "bass", "survival:min=0.01", "off"])]
    draft = draw.choice([None, *drafts])
    options += ["--drafter", draw.choice(["auto", "ngram", "model"])] if draft else ["--drafter", draw.choice(["ngram", "off"])]
    options += ["-d", tiny_file(draft)] if draft else []
    options += ["--prefix-cache", draw.choice([0, 1, 4])] if draw.random() < 0.3 else []
    env = {"BASS_FORCE_ISA": "avx2"} if draw.random() < 0.3 else {}
    return on_gpu(options, env) if draw.random() < 0.4 or needs_gpu else (options, env)


def answers(done):
    assert done.code == 0, done.err
    told = ("token_ids", "text", "logprobs", "top_logprobs", "finish_reason")
    return [[[choice.get(key) for key in told] for choice in sorted(prompt["choices"], key=lambda choice: choice["index"])]
            for prompt in done.json()["prompts"]]


@pytest.mark.parametrize("case", CASES)
def test_options_of_the_machine_change_no_answer(run, tmp_path, case):
    draw = random.Random(case)
    model = draw.choice(list(DRAFTS))
    requests = [request(draw) for _ in range(draw.randint(1, 6))]
    file = tmp_path / "requests.jsonl"

    def generate(*options, env=None):
        file.write_text("".join(json.dumps(asked) + "\n" for asked in requests))
        return answers(run("generate", "-m", tiny_file(model), "--prompts", file, "--json", *precision, *options, env=env))

    kv_type = draw.choice(["int16", "int16", "int8", "int8", "f16", "bf16"])
    precision = ["--kv-type", kv_type, "--activations", draw.choice(["int8", "int16"])]
    needs_gpu = kv_type in ("f16", "bf16")
    plain, plain_env = on_gpu(PLAIN, {}) if needs_gpu else (PLAIN, {"BASS_FORCE_ISA": "scalar"})
    expected = generate(*plain, env=plain_env)
    for _ in range(RUNS):
        options, env = machine(draw, DRAFTS[model], needs_gpu)
        assert generate(*options, env=env) == expected, f"{options}, {env}, {requests}"
    # What is compared can differ, unless grammars leave no choice.
    for asked in requests:
        asked.update(seed=asked["seed"] ^ 1, temperature=1.5, max_tokens=40)
    if any(not {"json_schema", "regex"} & set(asked) for asked in requests):
        assert generate(*plain, env=plain_env) != expected
