"""Checkpoints as transformers saves them, what the import of them must give, and their figures in float32: README.md.

The weights come from a hash that the test computes again (`weights_of`), so that only names, shapes and hashes are stored,
and the test makes the file to the byte. Every weight is exact in BF16, F16 and F32.
"""

import argparse
import copy
import dataclasses
import json
import math
import pathlib
import re
import tempfile
import unittest.mock

import numpy as np
import safetensors.torch
import torch
import transformers

import architecture_mapping as mapping
import golden_common as common
import make_architecture_models as architectures

EXPERT = re.compile(r"(.*)\.(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(?:(gate|w1)|(up|w3)|(?:down|w2))(?:_proj)?\.weight")
MAX_STEPS = 31  # a weight is centre + k step, k from -31 to 31
STORED_DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # by turns
FIRST_MORE_SEED = 301
N_SEQUENCES = 1
MAX_ROUNDING = 3e-5  # between transformers in float32 and in float64: tests ask for 1e-4 of other orders of sums
MAX_JSON_BYTES = 600_000


def more_models():
    """Other shapes of the heads, tied and untied, than those of make_architecture_models."""
    t, sizes, gpt_sizes, rope = transformers, architectures.sizes, architectures.gpt_sizes, architectures.rope
    window, experts = architectures.WINDOW, dict(num_experts_per_tok=2)
    scaled = {"sliding_attention": rope(), "full_attention": rope(1e6, "linear", factor=8.0)}
    longrope = rope(10000.0, "longrope", short_factor=[1.0 + 0.2 * i for i in range(12)],
                    long_factor=[2.0 + 0.25 * i for i in range(12)], original_max_position_embeddings=16,
                    partial_rotary_factor=0.75)
    listed = [  # a new one at the end: seeds are counted
        ("smollm3_untied", "smollm3", t.SmolLM3Config(**sizes(
            n_layers=5, n_heads=2, n_kv_heads=2, rope_parameters=rope(5e6)))),
        ("qwen2_many_heads", "qwen2", t.Qwen2Config(**sizes(d_model=96, n_heads=6, n_kv_heads=1, tied=True))),
        ("qwen3_untied", "qwen3", t.Qwen3Config(**sizes(n_heads=2, n_kv_heads=1, head_dim=16))),
        ("gemma_all_heads", "gemma", t.GemmaConfig(**sizes(n_kv_heads=4, head_dim=32, tied=True))),
        ("gemma2_wide_heads", "gemma2", t.Gemma2Config(**sizes(
            n_layers=3, n_heads=2, n_kv_heads=1, head_dim=64, tied=True, sliding_window=window,
            query_pre_attn_scalar=32, attn_logit_softcapping=8.0, final_logit_softcapping=20.0))),
        ("gemma3_linear", "gemma3", t.Gemma3TextConfig(**sizes(
            n_heads=2, n_kv_heads=2, head_dim=16, tied=True, sliding_window=window, query_pre_attn_scalar=16,
            layer_types=["sliding_attention", "full_attention"], rope_parameters=scaled))),
        ("phi3_partial_tied", "phi3", t.Phi3Config(**sizes(
            n_heads=2, n_kv_heads=1, tied=True, rope_parameters=longrope, original_max_position_embeddings=16))),
        ("gpt2_wide_heads", "gpt2", t.GPT2Config(**dict(gpt_sizes(), n_head=2, n_inner=None))),
        ("gptneox_many_heads", "gptneox", t.GPTNeoXConfig(**sizes(
            d_model=96, n_heads=6, tied=True, rope_parameters=rope(partial_rotary_factor=0.5)))),
        ("gptj_wide_heads", "gptj", t.GPTJConfig(**dict(gpt_sizes(rotary_dim=24), n_head=2))),
        ("codegen_eight_heads", "codegen", t.CodeGenConfig(**dict(gpt_sizes(rotary_dim=16), n_embd=128, n_head=8))),
        ("opt_untied", "opt", t.OPTConfig(
            vocab_size=architectures.N_VOCAB, hidden_size=64, word_embed_proj_dim=64, ffn_dim=128, num_hidden_layers=3,
            num_attention_heads=2, max_position_embeddings=architectures.CONTEXT_LEN, tie_word_embeddings=False,
            pad_token_id=1, bos_token_id=2, eos_token_id=2)),
        ("starcoder2_untied", "starcoder2", t.Starcoder2Config(**sizes(
            n_heads=2, n_kv_heads=1, sliding_window=None))),
        ("olmoe_tied", "olmoe", t.OlmoeConfig(**sizes(
            n_heads=2, n_kv_heads=1, d_ff=32, tied=True, num_experts=4, **experts))),
        ("qwen3moe_tied", "qwen3moe", t.Qwen3MoeConfig(**sizes(
            n_kv_heads=4, head_dim=16, tied=True, moe_intermediate_size=48, num_local_experts=4,
            norm_topk_prob=True, **experts))),
        ("stablelm_many_heads", "stablelm", t.StableLmConfig(**sizes(
            d_model=96, n_heads=6, n_kv_heads=3, use_qkv_bias=True, rope_parameters=rope(partial_rotary_factor=0.25)))),
        ("mixtral_window", "llama", t.MixtralConfig(**sizes(
            n_heads=2, n_kv_heads=1, d_ff=48, tied=True, sliding_window=window, num_local_experts=3, **experts))),
    ]
    return [architectures.ArchitectureModel(name, arch, config, FIRST_MORE_SEED + i)
            for i, (name, arch, config) in enumerate(listed)]


def mixed(x):
    """Bits of 32-bit numbers, well mixed (the end of MurmurHash3)."""
    x = x ^ x >> np.uint32(16)
    x = x * np.uint32(0x85EBCA6B)
    x = x ^ x >> np.uint32(13)
    x = x * np.uint32(0xC2B2AE35)
    return x ^ x >> np.uint32(16)


def weights_of(seed, tensor_idx, shape, centre, step):
    start = mixed(np.array([1024 * seed + tensor_idx], np.uint32))
    bits = mixed(np.arange(np.prod(shape), dtype=np.uint32) + start)
    steps = (bits % np.uint32(2 * MAX_STEPS + 1)).astype(np.int64) - MAX_STEPS
    return (centre + steps * step).astype(np.float32).reshape(shape)


def centre_and_step(model, name, shape):
    """The scales of make_architecture_models, with few bits. Sums with a centre need a power of two to be exact."""
    sample = architectures.random_value(np.random.default_rng(0), model.arch, name, tuple(shape))
    centre = round(float(sample.mean())) if len(shape) == 1 else 0
    step = float(sample.std()) / (MAX_STEPS / 3 ** 0.5)
    n_bits = 1 if centre else 3
    exponent = math.floor(math.log2(step)) - n_bits + 1
    if centre:
        exponent = max(exponent, -7 + int(math.log2(centre)))
    return centre, math.ceil(step / 2 ** exponent) * 2.0 ** exponent


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def bytes_of(values, dtype):
    tensor = torch.from_numpy(np.ascontiguousarray(values, np.float32))
    stored = tensor.to(dtype)
    assert torch.equal(stored.float(), tensor)
    return stored.contiguous().view(torch.uint8).numpy().tobytes()


@dataclasses.dataclass
class Checkpoint:
    """What transformers saved."""
    config: dict
    tensors: list  # [name, shape, centre, step] in the file's order
    weights: dict  # {name: float32 array}
    file_hash: str
    reference: transformers.PreTrainedModel  # in float32, loaded from such a file


def save_and_load(model, dtype, folder):
    """transformers says which tensors there are, loads a file with our weights, and saves it."""
    first = transformers.AutoModelForCausalLM.from_config(model.config, attn_implementation="eager")
    first.save_pretrained(folder)
    file = folder / "model.safetensors"
    shapes = {name: list(value.shape) for name, value in safetensors.torch.load_file(file).items()}
    tensors = [[name, shapes[name], *centre_and_step(model, name, shapes[name])] for name in sorted(shapes)]
    weights = {name: weights_of(model.seed, i, *rest) for i, (name, *rest) in enumerate(tensors)}
    for type_ in STORED_DTYPES:
        for values in weights.values():
            bytes_of(values, type_)  # exact
    safetensors.torch.save_file({name: torch.from_numpy(values) for name, values in weights.items()}, file, {"format": "pt"})
    load = lambda type_: transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=type_)
    reference = load(torch.float32).eval()
    load(dtype).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    return Checkpoint(config, tensors, weights, fnv1a(file.read_bytes()), reference)


def as_modules(weights):
    """Names of modules, which the mapping knows, from those of checkpoints, which have a matrix an expert."""
    fused, experts = {}, {}
    for name, values in weights.items():
        name = name.replace("embed_out", "lm_head").replace("block_sparse_moe.gate", "mlp.gate")
        if found := EXPERT.fullmatch(name):
            part = "gate" if found[3] else "up" if found[4] else "down"
            experts.setdefault(f"{found[1]}.mlp.experts", {})[int(found[2]), part] = values
        else:
            fused[name] = values
    for stem, parts in experts.items():
        n_experts = 1 + max(i for i, _ in parts)
        fused[f"{stem}.gate_up_proj"] = np.stack([np.concatenate([parts[i, "gate"], parts[i, "up"]])
                                                  for i in range(n_experts)])
        fused[f"{stem}.down_proj"] = np.stack([parts[i, "down"] for i in range(n_experts)])
    return fused


class Metadata:
    """Takes what a GGUF writer would."""

    def __init__(self):
        self.values = {}

    def add_uint32(self, key, value):
        self.values[key] = int(value)

    def add_float32(self, key, value):
        self.values[key] = float(np.float32(value))

    def add_string(self, key, value):
        self.values[key] = value

    def add_bool(self, key, value):
        self.values[key] = bool(value)

    def add_array(self, key, value):
        self.values[key] = [int(item) for item in value]


def finer(reference):
    """The model in float64, its rope frequencies otherwise rounded: what float32 leaves open shows against it."""
    model = copy.deepcopy(reference).double()
    model.set_experts_implementation("eager")  # the others know no float64
    generator = torch.Generator().manual_seed(0)
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq"):
            buffer.mul_(1 + 2 ** -24 * (2 * torch.rand(buffer.shape, generator=generator) - 1).double())
    return model


@torch.no_grad()
def rounding_of(finer_model, ids, log_probs):
    """Of what is stored about a text: the largest difference of the two arithmetics."""
    with unittest.mock.patch.object(torch.Tensor, "float", torch.Tensor.double):  # rope's angles
        fine = torch.log_softmax(finer_model(torch.tensor([ids])).logits[0], dim=-1)
    difference = (fine - log_probs).abs()
    return max(float(difference[-1].max()), *common.next_token_log_probs(difference, ids))


def short_text(reference, model):
    """Of a longrope model: up to the original context, transformers takes the short factors."""
    ids = np.random.default_rng([model.seed, 3]).integers(0, architectures.N_VOCAB, 16).tolist()
    return {"ids": ids, "logprobs": common.rounded(common.next_token_log_probs(common.log_probs_of(reference, ids), ids))}


def golden_of(idx, model):
    dtype = STORED_DTYPES[idx % len(STORED_DTYPES)]
    with tempfile.TemporaryDirectory() as folder:
        saved = save_and_load(model, dtype, pathlib.Path(folder))
    metadata = Metadata()
    mapping.add_metadata(metadata, model.arch, model.config)
    converted = []
    for name, values in mapping.to_gguf(model.arch, model.config, as_modules(saved.weights)).items():
        is_computed = name.startswith("rope_")  # in floating point, so not to the bit
        stored = values.tolist() if is_computed else \
            fnv1a(bytes_of(values, dtype if values.ndim > 1 else torch.float32))
        converted.append([name, list(values.shape)[::-1], stored])
    finer_model = finer(saved.reference)
    figures = architectures.figures_of(model.name, model, saved.reference, N_SEQUENCES,
                                       lambda ids, log_probs: rounding_of(finer_model, ids, log_probs) <= MAX_ROUNDING)
    if "rope_factors_short.weight" in (name for name, *_ in converted):
        figures["short_text"] = short_text(saved.reference, model)
    return {"name": model.name, "architecture": model.arch, "seed": model.seed, "config": saved.config,
            "dtype": {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}[dtype],
            "file_hash": saved.file_hash, "tensors": saved.tensors, "metadata": metadata.values,
            "converted": converted, **figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    common.use_one_thread()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    models = architectures.architecture_models() + more_models()
    goldens = [golden_of(i, model) for i, model in enumerate(models)]
    n_bytes = common.write_json(args.out, {"versions": common.library_versions()}, {"models": goldens})
    print(f"{args.out.name}: {n_bytes} bytes, {len(goldens)} models")
    assert n_bytes < MAX_JSON_BYTES


if __name__ == "__main__":
    main()
