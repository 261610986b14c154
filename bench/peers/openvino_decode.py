"""Decodes one batch with OpenVINO GenAI from a GGUF file, twice, and prints the second run's figures as a line of JSON.

The steps are called one by one, so that the time of the prompts and that of decoding are known apart: the first step
after which every sequence has a token ends the prompts.
"""
import argparse
import json
import pathlib
import time

import numpy as np
import openvino
import openvino_genai

PROMPT_STRIDE = 7  # as in `bass bench decode`: each prompt starts so many tokens further in the text


def make_pipeline(options):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_seqs = options.batch
    scheduler.max_num_batched_tokens = max(256, options.batch * options.prompt_tokens)  # all prompts in one step
    scheduler.enable_prefix_caching = False  # the second run would find the first one's prompts
    scheduler.cache_size = 1  # GB
    tokenizer = openvino_genai.Tokenizer(options.model)
    properties = {"INFERENCE_NUM_THREADS": options.threads, **json.loads(options.properties)}
    return openvino_genai.ContinuousBatchingPipeline(options.model, tokenizer, scheduler, "CPU", **properties)


def make_prompts(pipeline, options):
    """Tensors [1, prompt_tokens] of token ids."""
    text = (pathlib.Path(__file__).parent / "prompt.txt").read_text(encoding="utf-8")
    ids = pipeline.get_tokenizer().encode(text, add_special_tokens=False).input_ids.data[0]
    starts = np.arange(options.batch)[:, None] * PROMPT_STRIDE
    rows = ids[(starts + np.arange(options.prompt_tokens)) % len(ids)]
    return [openvino.Tensor(np.ascontiguousarray(row[None, :])) for row in rows]


def run(pipeline, prompts, n_generated):
    """Returns the moments before the first and after each step, and how many tokens each sequence generated."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = n_generated
    config.ignore_eos = True
    config.do_sample = False
    config.apply_chat_template = False
    handles = [pipeline.add_request(i, prompt, config) for i, prompt in enumerate(prompts)]
    moments = [time.perf_counter()]
    while pipeline.has_non_finished_requests():
        pipeline.step()
        moments.append(time.perf_counter())
    return moments, [len(handle.read_all()[0].generated_ids) for handle in handles]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    for name in ("--batch", "--prompt-tokens", "--generate-tokens", "--threads"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--properties", default="{}", help="OpenVINO properties, a JSON object")
    options = parser.parse_args()
    pipeline = make_pipeline(options)
    prompts = make_prompts(pipeline, options)
    for _ in range(2):
        moments, generated = run(pipeline, prompts, options.generate_tokens)
    n_decode_steps = options.generate_tokens - 1  # each sequence's first token comes with its prompt
    prompts_end = moments[-1 - n_decode_steps]
    print(json.dumps({
        "batch": options.batch,
        "generated": generated,
        "decode_tokens_s": options.batch * n_decode_steps / (moments[-1] - prompts_end),
        "prompt_tokens_s": options.batch * options.prompt_tokens / (prompts_end - moments[0]),
        "steps": len(moments) - 1,
    }))


if __name__ == "__main__":
    main()
