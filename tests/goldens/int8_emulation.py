"""Emulates the engine's arithmetic on the golden texts: what difference to float32 is to be expected? See README.md.

Activations are quantised per row in groups before every matrix product, head included; weights are as in the file; keys
(after rope) and values are rounded to float16. Group sums and everything else are float32, as good as exact here.
"""

import argparse
import json
import pathlib

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward

import golden_common as common

INT8_STEPS = 127
INT16_STEPS = 32512  # 127 * 256, so that a value is two int8 planes
CLEAR_GAP = 0.2


def quantise(x, group, n_steps):
    """Rounds to n_steps levels a side in each group of neighbours (None: the whole row); ties go to even."""
    grouped = x.reshape(-1, x.shape[-1] if group is None else group)  # [n_groups, group]
    scale = grouped.abs().amax(dim=-1, keepdim=True) / n_steps
    steps = torch.round(grouped / torch.where(scale == 0, torch.ones_like(scale), scale))
    return (steps * scale).reshape(x.shape)


VARIANTS = {  # name -> (what happens to the input of a matrix product, dtype of keys and values)
    "float32 (control)": (lambda x: x, torch.float32),
    "int8, groups of 32": (lambda x: quantise(x, 32, INT8_STEPS), torch.float16),
    "int8, one scale a row": (lambda x: quantise(x, None, INT8_STEPS), torch.float16),
    "int16, groups of 32": (lambda x: quantise(x, 32, INT16_STEPS), torch.float16),
    "bfloat16": (lambda x: x.bfloat16().float(), torch.float16),
    "float32, KV float16": (lambda x: x, torch.float16),
    "float32, KV bfloat16": (lambda x: x, torch.bfloat16),
}


def rounding_attention(kv_dtype):
    def forward(module, query, key, value, *args, **kwargs):
        return eager_attention_forward(module, query, key.to(kv_dtype).float(), value.to(kv_dtype).float(), *args,
                                       **kwargs)
    return forward


def install(model, round_input, kv_dtype):
    """Makes the model compute as the variant says; returns the handles that undo it."""
    ALL_ATTENTION_FUNCTIONS.register("bass_rounded", rounding_attention(kv_dtype))
    ALL_MASK_ATTENTION_FUNCTIONS.register("bass_rounded", eager_mask)  # without it there would be no causal mask
    model.set_attn_implementation("bass_rounded")
    linears = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    assert len(linears) == 7 * model.config.num_hidden_layers + 1
    return [module.register_forward_pre_hook(lambda _, inputs: (round_input(inputs[0]),)) for module in linears]


def score_texts(model, texts):
    """(log-probabilities of the actual next tokens, argmax, gaps), each over all texts, rows with a next token only."""
    columns = ([], [], [])
    for text in texts:
        log_probs = common.log_probs_of(model, text["ids"])
        argmax, gaps = common.argmax_and_gaps(log_probs)
        columns[0].append(common.next_token_log_probs(log_probs, text["ids"]))
        columns[1].append(torch.tensor(argmax[:-1]))
        columns[2].append(gaps[:-1])
    return tuple(torch.cat(column) for column in columns)


def compare(exact, other):
    difference = (other[0] - exact[0]).abs()
    same = other[1] == exact[1]
    clear = exact[2] >= CLEAR_GAP
    return {
        "mean abs diff": difference.mean().item(),
        "p99": difference.quantile(0.99).item(),
        "max": difference.max().item(),
        "bias": (other[0] - exact[0]).mean().item(),
        "top-1 %": 100 * same.float().mean().item(),
        f"top-1 % (gap >= {CLEAR_GAP})": 100 * same[clear].float().mean().item(),
        "largest lost gap": exact[2][~same].max().item() if not bool(same.all()) else 0.0,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--goldens", required=True, type=pathlib.Path)
    args = parser.parse_args()
    common.use_one_thread()
    texts = json.loads(args.goldens.read_text(encoding="utf-8"))["texts"]
    model = common.load_model(args.model)
    exact = score_texts(model, texts)
    stored = torch.tensor([value for text in texts for value in text["logprobs"]])
    print(f"{len(texts)} texts, {len(stored)} predictions; float32 here against the stored goldens: largest difference "
          f"{(exact[0] - stored).abs().max().item():.1e}")
    for row_idx, (name, (round_input, kv_dtype)) in enumerate(VARIANTS.items()):
        handles = install(model, round_input, kv_dtype)
        figures = compare(exact, score_texts(model, texts))
        for handle in handles:
            handle.remove()
        if row_idx == 0:
            assert figures["max"] == 0, "the way through the hooks must not change anything by itself"
            print(f"{'activations':22s}" + "".join(f"{key:>24s}" for key in figures))
        print(f"{name:22s}" + "".join(f"{value:24.4f}" for value in figures.values()), flush=True)


if __name__ == "__main__":
    main()
