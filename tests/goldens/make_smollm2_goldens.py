"""Makes the log-probability goldens of the default model with transformers in float32. See README.md."""

import argparse
import math
import pathlib

import golden_common as common
from golden_texts import GREEDY_PROMPTS, SCORED_TEXTS

N_GREEDY_TOKENS = 32
MAX_ENGLISH_PERPLEXITY = 40.0  # about 23 as it should be, 72 with q and k left permuted
MAX_FILE_BYTES = 300_000


def perplexity_of(log_probs):
    return math.exp(-sum(log_probs) / len(log_probs))


def encode(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text, f"does not round-trip: {text!r}"
    return ids


def score_text(model, tokenizer, name, kind, text):
    ids = encode(tokenizer, text)
    assert 40 <= len(ids) <= 120, f"{name}: {len(ids)} tokens"
    record, log_probs = common.score(model, ids)
    top = log_probs[-1].topk(5)
    record["last_top5"] = [[int(i), common.rounded([value])[0]] for i, value in zip(top.indices, top.values)]
    perplexity = perplexity_of(record["logprobs"])
    print(f"{name:20s} {kind:12s} {len(ids):4d} tokens  perplexity {perplexity:8.2f}", flush=True)
    return {"name": name, "kind": kind, "text": text, **record, "perplexity": round(perplexity, 4)}


def continue_prompt(model, tokenizer, name, prompt):
    record = common.continue_greedily(model, encode(tokenizer, prompt), N_GREEDY_TOKENS)
    assert not {0, 1, 2} & set(record["ids"]), f"{name}: the continuation ends early; choose another prompt"
    text = tokenizer.decode(record["ids"], skip_special_tokens=False)
    print(f"{name:20s} smallest gap {min(record['gaps']):.4f}  {text!r}", flush=True)
    return {"name": name, "prompt": prompt, **record, "text": text}


def english_perplexity(records):
    values = [value for record in records if record["kind"] == "english" for value in record["logprobs"]]
    return perplexity_of(values)


def negative_control(path, records):
    """Perplexity of the English texts when the permutation of q and k is not undone: must be far worse."""
    model = common.load_model(path, permuted=False)
    values = []
    for record in records:
        if record["kind"] == "english":
            values += common.score(model, record["ids"])[0]["logprobs"]
    return perplexity_of(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    common.use_one_thread()
    tokenizer = common.load_tokenizer(args.model)
    model = common.load_model(args.model)
    texts = [score_text(model, tokenizer, *entry) for entry in SCORED_TEXTS]
    english = english_perplexity(texts)
    control = negative_control(args.model, texts)
    print(f"English perplexity {english:.2f}; with q and k left permuted (negative control) {control:.2f}")
    assert english < MAX_ENGLISH_PERPLEXITY < control
    greedy = [continue_prompt(model, tokenizer, *entry) for entry in GREEDY_PROMPTS]
    head = {"model": {"file": args.model.name, "sha256": common.sha256_of(args.model)},
            "versions": common.library_versions(), "english_perplexity": round(english, 4)}
    n_bytes = common.write_json(args.out, head, {"texts": texts, "greedy": greedy})
    print(f"{args.out.name}: {n_bytes} bytes, {len(texts)} texts, {sum(len(t['ids']) for t in texts)} tokens")
    assert n_bytes < MAX_FILE_BYTES


if __name__ == "__main__":
    main()
