"""Makes tiny random-weight checkpoints of every architecture (GGUF v3) and their goldens by transformers in float32.

README.md says what is stored. The models are transformers' own, of a configuration; their weights, rounded to the file's type, are
converted by architecture_mapping.py.
"""

import argparse
import dataclasses
import pathlib

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as DType

import architecture_mapping as mapping
import golden_common as common
import make_tiny_models as tiny

N_SEQUENCES, SEQUENCE_LEN = 2, 80
PROMPT_LEN, N_GREEDY_TOKENS = 24, 64
CONTEXT_LEN = 128
WINDOW = 20  # less than a chunk of attention, so that whole chunks lie in front of it
MIN_GREEDY_GAP, MIN_GREEDY_DISTINCT = 0.02, 10
MAX_JSON_BYTES = 400_000
N_VOCAB = 288


@dataclasses.dataclass(frozen=True)
class ArchitectureModel:
    name: str
    arch: str  # GGUF's
    config: transformers.PretrainedConfig
    seed: int
    dtype: DType = DType.F16

    def __post_init__(self):
        self.config.attn_implementation = "eager"


def sizes(n_layers=2, d_model=64, n_heads=4, n_kv_heads=None, d_ff=96, tied=False, **more):
    """Names of the llama-like configurations."""
    return dict(vocab_size=N_VOCAB, hidden_size=d_model, intermediate_size=d_ff, num_hidden_layers=n_layers,
                num_attention_heads=n_heads, max_position_embeddings=CONTEXT_LEN, tie_word_embeddings=tied,
                pad_token_id=None, bos_token_id=1, eos_token_id=2,
                **({"num_key_value_heads": n_kv_heads} if n_kv_heads else {}), **more)


def gpt_sizes(**more):
    return dict(vocab_size=N_VOCAB, n_positions=CONTEXT_LEN, n_embd=64, n_layer=2, n_head=4, n_inner=96,
                bos_token_id=1, eos_token_id=2, **more)


def rope(theta=10000.0, kind="default", **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


def architecture_models():
    t = transformers
    llama3 = rope(500000.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=32)
    longrope = rope(10000.0, "longrope", short_factor=[1.0 + 0.1 * i for i in range(8)],
                    long_factor=[1.5 + 0.5 * i for i in range(8)], original_max_position_embeddings=16)
    local_and_global = {"sliding_attention": rope(), "full_attention": rope(1e6)}
    experts = dict(num_experts_per_tok=2)
    listed = [  # a new one at the end: seeds are counted
        ("llama_rope_factors", "llama", t.LlamaConfig(**sizes(n_kv_heads=2, head_dim=16, rope_parameters=llama3))),
        ("llama_linear_biases", "llama", t.LlamaConfig(**sizes(
            n_heads=2, n_kv_heads=1, head_dim=32, tied=True, rope_parameters=rope(kind="linear", factor=4.0),
            attention_bias=True, mlp_bias=True))),
        ("llama_window", "llama", t.MistralConfig(**sizes(n_kv_heads=2, head_dim=32, sliding_window=WINDOW))),
        ("smollm3", "smollm3", t.SmolLM3Config(**sizes(n_layers=4, n_kv_heads=2, tied=True))),
        ("qwen2_gqa_tied", "qwen2", t.Qwen2Config(**sizes(n_kv_heads=2, tied=True))),
        ("qwen2_yarn", "qwen2", t.Qwen2Config(**sizes(
            n_heads=2, n_kv_heads=2,
            rope_parameters=rope(100.0, "yarn", factor=4.0, original_max_position_embeddings=32)))),
        ("qwen3", "qwen3", t.Qwen3Config(**sizes(n_kv_heads=2, head_dim=32, tied=True))),
        ("gemma", "gemma", t.GemmaConfig(**sizes(n_heads=2, n_kv_heads=1, head_dim=48, tied=True))),
        ("gemma2", "gemma2", t.Gemma2Config(**sizes(
            n_kv_heads=2, head_dim=16, tied=True, sliding_window=WINDOW, query_pre_attn_scalar=24,
            attn_logit_softcapping=6.0, final_logit_softcapping=15.0))),
        ("gemma3_q8_0", "gemma3", t.Gemma3TextConfig(**sizes(
            n_layers=3, n_kv_heads=1, head_dim=32, tied=True, sliding_window=WINDOW, query_pre_attn_scalar=24,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters=local_and_global))),
        ("phi3_longrope", "phi3", t.Phi3Config(**sizes(
            n_kv_heads=2, rope_parameters=longrope, original_max_position_embeddings=16))),
        ("phi3_window", "phi3", t.Phi3Config(**sizes(d_model=96, n_heads=2, n_kv_heads=2, sliding_window=WINDOW))),
        ("gpt2", "gpt2", t.GPT2Config(**gpt_sizes())),
        ("gptneox_parallel", "gptneox", t.GPTNeoXConfig(**sizes(
            n_heads=2, rope_parameters=rope(partial_rotary_factor=0.25)))),
        ("gptneox_sequential", "gptneox", t.GPTNeoXConfig(**sizes(
            use_parallel_residual=False, rope_parameters=rope(partial_rotary_factor=1.0)))),
        ("gptj", "gptj", t.GPTJConfig(**gpt_sizes(rotary_dim=8))),
        ("codegen", "codegen", t.CodeGenConfig(**gpt_sizes(rotary_dim=8))),
        ("opt_q8_0", "opt", t.OPTConfig(
            vocab_size=N_VOCAB, hidden_size=64, word_embed_proj_dim=64, ffn_dim=96, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=CONTEXT_LEN, pad_token_id=1, bos_token_id=2, eos_token_id=2)),
        ("starcoder2", "starcoder2", t.Starcoder2Config(**sizes(n_kv_heads=2, d_ff=80, tied=True, sliding_window=WINDOW))),
        ("olmoe", "olmoe", t.OlmoeConfig(**sizes(d_ff=48, num_experts=6, **experts))),
        ("qwen3moe_q8_0", "qwen3moe", t.Qwen3MoeConfig(**sizes(
            n_kv_heads=2, head_dim=32, moe_intermediate_size=32, num_local_experts=5, norm_topk_prob=True, **experts))),
        ("stablelm_parallel", "stablelm", t.StableLmConfig(**sizes(
            n_heads=2, n_kv_heads=2, use_parallel_residual=True, rope_parameters=rope(partial_rotary_factor=0.25)))),
        ("stablelm_sequential", "stablelm", t.StableLmConfig(**sizes(
            n_kv_heads=2, tied=True, use_qkv_bias=True, rope_parameters=rope(partial_rotary_factor=0.5)))),
        ("mixtral_q8_0", "llama", t.MixtralConfig(**sizes(n_kv_heads=2, d_ff=64, num_local_experts=4, **experts))),
    ]
    return [ArchitectureModel(name, arch, config, 101 + i, DType.Q8_0 if name.endswith("q8_0") else DType.F16)
            for i, (name, arch, config) in enumerate(listed)]


def random_value(rng, arch, name, shape):
    """Scales as in make_tiny_models: blocks weigh more in the residual stream than embeddings, and a row's likeliest
    token has a probability of .2 to .6. Norm weights are not 1, biases not 0."""
    draw = lambda scale: scale * rng.standard_normal(shape)
    is_gemma = arch.startswith("gemma")
    if len(shape) == 1:
        if name.endswith("bias"):
            return draw(0.2)
        if not is_gemma:
            return 1 + draw(0.2)
        return draw(0.2) + (4.0 if name == "model.norm.weight" else 1.0 if "post_" in name else 0.0)  # used + 1
    if any(part in name for part in ("embed", "wte", "wpe", "lm_head")):
        return draw(0.08 if is_gemma else 0.4)  # gemma multiplies its embeddings by 8
    n_inputs = shape[0] if arch == "gpt2" else shape[-1]
    return draw((1.6 if "q_proj" in name or "k_proj" in name else 2.0) / n_inputs ** 0.5)


def is_float32(name, values):
    """Vectors and routers."""
    return values.ndim == 1 or "gate_inp" in name or name.endswith("mlp.gate.weight")


def rounded(name, values, dtype):
    """As the file's type has them. Rows are the same in transformers and GGUF but in gpt2, whose type must not have groups."""
    if is_float32(name, values):
        return values
    return gguf.quants.dequantize(gguf.quants.quantize(values, dtype), dtype)


def make_model(model):
    """The transformers model with weights that the file's type has."""
    reference = transformers.AutoModelForCausalLM.from_config(model.config, attn_implementation="eager").float().eval()
    rng = np.random.default_rng(model.seed)
    state = {}
    for name, value in reference.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        drawn = random_value(rng, model.arch, name, tuple(value.shape)).astype(np.float32)
        state[name] = torch.from_numpy(rounded(name, drawn, model.dtype).astype(np.float32))
    missing, unexpected = reference.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    reference.tie_weights()
    return reference, {name: value.numpy() for name, value in state.items()}


def write_gguf(path, model, weights):
    """Matrices in the model's type, vectors and routers in float32."""
    writer = gguf.GGUFWriter(path, model.arch)
    writer.add_name(model.name)
    mapping.add_metadata(writer, model.arch, model.config)
    tiny.add_tokenizer(writer, tiny.TinyModel(model.name, model.seed, n_vocab=N_VOCAB))
    for name, values in mapping.to_gguf(model.arch, model.config, weights).items():
        dtype = DType.F32 if is_float32(name, values) else model.dtype
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values, np.float32), dtype), raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def greedy_record(reference, model):
    """A continuation that any correct float32 arithmetic must repeat: no near-tie, no special token, some variety."""
    for attempt in range(2000):
        rng = np.random.default_rng([model.seed, 2, attempt])
        prompt = rng.integers(3, N_VOCAB, PROMPT_LEN).tolist()
        ids, gaps = list(prompt), []
        while len(gaps) < N_GREEDY_TOKENS and (not gaps or gaps[-1] >= MIN_GREEDY_GAP) and ids[-1] > 2:
            argmax, gap = common.argmax_and_gaps(common.log_probs_of(reference, ids)[-1:])
            ids.append(argmax[0])
            gaps.append(float(gap[0]))
        new = ids[PROMPT_LEN:]
        if len(new) == N_GREEDY_TOKENS and gaps[-1] >= MIN_GREEDY_GAP and new[-1] > 2 and \
                len(set(new)) >= MIN_GREEDY_DISTINCT:
            return {"prompt_ids": prompt, "ids": new, "smallest_gap": round(min(gaps), common.N_DECIMALS)}
    raise SystemExit(f"{model.name}: no prompt gives a clear greedy continuation; change its seed")


def figures_of(name, model, reference, n_sequences=N_SEQUENCES, is_good=lambda ids, log_probs: True):
    """Log-probabilities of random texts and a greedy continuation; a line about them is printed."""
    rng = np.random.default_rng([model.seed, 1])
    sequences, max_probs = [], []
    while len(sequences) < n_sequences:
        ids = rng.integers(0, N_VOCAB, SEQUENCE_LEN).tolist()
        log_probs = common.log_probs_of(reference, ids)
        if not is_good(ids, log_probs):
            continue
        sequences.append({"ids": ids, "logprobs": common.rounded(common.next_token_log_probs(log_probs, ids))})
        max_probs += log_probs.amax(dim=-1).exp().tolist()
    sequences[-1]["last_logprobs"] = common.rounded(log_probs[-1])
    greedy = greedy_record(reference, model)
    low, middle, high = np.quantile(max_probs, [0.1, 0.5, 0.9])
    print(f"{name:34s} largest probability {low:.2f} {middle:.2f} {high:.2f} "
          f"(10, 50, 90 %)  greedy: {len(set(greedy['ids']))} tokens, smallest gap {greedy['smallest_gap']:.3f}",
          flush=True)
    return {"sequences": sequences, "greedy": greedy}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--only", help="one model, to look at: its golden is not stored")
    args = parser.parse_args()
    common.use_one_thread()
    transformers.logging.set_verbosity_error()
    args.out.mkdir(parents=True, exist_ok=True)
    goldens = []
    for model in architecture_models():
        if args.only not in (None, model.name):
            continue
        path = args.out / f"{model.name}.gguf"
        reference, weights = make_model(model)
        write_gguf(path, model, weights)
        goldens.append({"file": path.name, "sha256": common.sha256_of(path)} | figures_of(path.name, model, reference))
    if args.only:
        return
    n_bytes = common.write_json(args.out / "architecture_goldens.json", {"versions": common.library_versions()},
                                {"models": goldens})
    print(f"architecture_goldens.json: {n_bytes} bytes")
    assert n_bytes < MAX_JSON_BYTES


if __name__ == "__main__":
    main()
