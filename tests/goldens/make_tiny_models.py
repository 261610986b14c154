"""Makes tiny random-weight llama checkpoints (GGUF v3) and their goldens by transformers in float32: README.md."""

import argparse
import dataclasses
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as DType

import golden_common as common
import random_blocks
from tiny_tokenizer import OTHER_MERGES, TINY_MERGES, CHAT_TEMPLATE, tiny_vocabulary

CONTEXT_LEN = 256
ROPE_BASE, NORM_EPSILON = 100000.0, 1e-5
N_SEQUENCES, SEQUENCE_LEN = 3, 48
PROMPT_LEN, N_GREEDY_TOKENS = 8, 64
MIN_GREEDY_GAP, MIN_GREEDY_DISTINCT = 0.02, 12
MAX_JSON_BYTES = 300_000
FILE_TYPES = {DType.F32: gguf.LlamaFileType.ALL_F32, DType.F16: gguf.LlamaFileType.MOSTLY_F16,
              DType.BF16: gguf.LlamaFileType.MOSTLY_BF16, DType.Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0,
              DType.Q4_0: gguf.LlamaFileType.MOSTLY_Q4_0, DType.Q4_1: gguf.LlamaFileType.MOSTLY_Q4_1,
              DType.Q5_0: gguf.LlamaFileType.MOSTLY_Q5_0, DType.Q5_1: gguf.LlamaFileType.MOSTLY_Q5_1,
              DType.Q2_K: gguf.LlamaFileType.MOSTLY_Q2_K, DType.Q3_K: gguf.LlamaFileType.MOSTLY_Q3_K_M,
              DType.Q4_K: gguf.LlamaFileType.MOSTLY_Q4_K_M, DType.Q5_K: gguf.LlamaFileType.MOSTLY_Q5_K_M,
              DType.Q6_K: gguf.LlamaFileType.MOSTLY_Q6_K, DType.IQ4_NL: gguf.LlamaFileType.MOSTLY_IQ4_NL}


@dataclasses.dataclass(frozen=True)
class TinyModel:
    name: str
    seed: int
    dtype: DType = DType.F32
    n_heads: int = 4
    n_kv_heads: int = 2
    tied: bool = True
    n_vocab: int = 288
    n_padding: int = 0  # extra vocabulary rows at the end
    merges: tuple = TINY_MERGES
    d_model: int = 64
    d_ff: int = 128
    n_blocks: int = 2

    @property
    def scale(self):
        """Weights of wider models are smaller, so that products stay as large."""
        return (64 / self.d_model) ** 0.5


def wide_model(name, seed, dtype):
    """A row of a K type is at least 256 long."""
    return TinyModel(name, seed, dtype, n_kv_heads=1, d_model=256, d_ff=256, n_blocks=1)


TINY_MODELS = [
    TinyModel("tiny_gqa_tied_f32", 1),
    TinyModel("tiny_mha_untied_f32", 2, n_kv_heads=4, tied=False),
    TinyModel("tiny_mqa_tied_f32", 3, n_heads=2, n_kv_heads=1),
    TinyModel("tiny_gqa_tied_f16", 4, DType.F16),
    TinyModel("tiny_gqa_untied_bf16", 5, DType.BF16, tied=False),
    TinyModel("tiny_gqa_tied_q8_0", 6, DType.Q8_0),
    TinyModel("tiny_gqa_untied_q4_0", 7, DType.Q4_0, tied=False),
    TinyModel("tiny_gqa_tied_q4_1", 8, DType.Q4_1),
    TinyModel("tiny_gqa_tied_q8_0_vocab299", 9, DType.Q8_0, n_vocab=299),
    # The weights of tiny_gqa_tied_f32 (same seed) rounded to Q8_0: a draft that is often right, but not always.
    TinyModel("draft_padded", 1, DType.Q8_0, n_padding=16),
    TinyModel("draft_other_vocab", 10, DType.Q8_0, merges=OTHER_MERGES),
    TinyModel("tiny_gqa_tied_q5_0", 11, DType.Q5_0),
    TinyModel("tiny_gqa_tied_q5_1", 12, DType.Q5_1),
    TinyModel("tiny_gqa_tied_iq4_nl", 13, DType.IQ4_NL),
    wide_model("tiny_mqa_tied_q2_k", 14, DType.Q2_K),
    wide_model("tiny_mqa_tied_q3_k", 15, DType.Q3_K),
    wide_model("tiny_mqa_tied_q4_k", 16, DType.Q4_K),
    wide_model("tiny_mqa_tied_q5_k", 17, DType.Q5_K),
    wide_model("tiny_mqa_tied_q6_k", 18, DType.Q6_K),
]
VOCAB_ONLY = TinyModel("vocab_only", 0)


def random_weights(model):
    """GGUF name -> float32 values. Scales are chosen so that a row's likeliest token has a probability of .2 to .6.

    Blocks weigh more in the residual stream than embeddings, else a tied head would only repeat the last token. The
    draws for padding come last, so that two models that differ only in them share all other weights.
    """
    rng = np.random.default_rng(model.seed)
    d_model, d_ff = model.d_model, model.d_ff
    head_dim = d_model // model.n_heads
    draw = lambda scale, *shape: (scale * rng.standard_normal(shape)).astype(np.float32)
    norm = lambda: 1 + draw(0.2, d_model)
    weights = {"token_embd": draw(0.4 * model.scale, model.n_vocab, d_model)}
    if not model.tied:
        weights["output"] = draw(0.4 * model.scale, model.n_vocab, d_model)
    for i in range(model.n_blocks):
        for kind, n_outputs, n_inputs, scale in (
                ("attn_q", model.n_heads * head_dim, d_model, 0.2),
                ("attn_k", model.n_kv_heads * head_dim, d_model, 0.2),
                ("attn_v", model.n_kv_heads * head_dim, d_model, 0.25), ("attn_output", d_model, d_model, 0.25),
                ("ffn_gate", d_ff, d_model, 0.25), ("ffn_up", d_ff, d_model, 0.25), ("ffn_down", d_model, d_ff, 0.15)):
            weights[f"blk.{i}.{kind}"] = draw(scale * model.scale, n_outputs, n_inputs)
        weights[f"blk.{i}.attn_norm"] = norm()
        weights[f"blk.{i}.ffn_norm"] = norm()
    weights["output_norm"] = norm()
    if model.n_padding:
        padding = draw(0.4 * model.scale, model.n_padding, d_model)
        weights["token_embd"] = np.concatenate([weights["token_embd"], padding])
    return weights


def add_metadata(writer, model, n_parameters):
    """Every key that the default model's file has."""
    writer.add_type("model")
    writer.add_name(model.name)
    writer.add_organization("bass")
    writer.add_finetune("random")
    writer.add_basename("tiny")
    writer.add_size_label(f"{n_parameters // 1000}K")
    writer.add_license("apache-2.0")
    writer.add_languages(["en"])
    writer.add_block_count(model.n_blocks)
    writer.add_context_length(CONTEXT_LEN)
    writer.add_embedding_length(model.d_model)
    writer.add_feed_forward_length(model.d_ff)
    writer.add_head_count(model.n_heads)
    writer.add_head_count_kv(model.n_kv_heads)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_file_type(FILE_TYPES[model.dtype])
    writer.add_vocab_size(model.n_vocab + model.n_padding)
    writer.add_rope_dimension_count(model.d_model // model.n_heads)
    add_tokenizer(writer, model)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def add_tokenizer(writer, model):
    tokens, types, merges = tiny_vocabulary(model.n_vocab, model.n_padding, model.merges)
    writer.add_add_space_prefix(False)
    writer.add_add_bos_token(False)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)


def quantise(rng, values, dtype):
    """The values in that type; random ones of the same deviation where gguf cannot write the type."""
    if dtype in random_blocks.TYPES:
        return random_blocks.random_blocks(rng, dtype, values.shape, values.std())
    return gguf.quants.quantize(values, dtype)


def write_gguf(path, model, weights):
    """Matrices in the model's type, norms in float32."""
    writer = gguf.GGUFWriter(path, "llama")
    add_metadata(writer, model, sum(values.size for values in weights.values()))
    rng = np.random.default_rng([model.seed, 3])
    for name, values in weights.items():
        dtype = model.dtype if values.ndim == 2 else DType.F32
        writer.add_tensor(f"{name}.weight", quantise(rng, values, dtype), raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def greedy_record(reference, model):
    """A continuation that any correct float32 arithmetic must repeat: the first prompt whose continuation has no
    near-tie, no special token and some variety."""
    for attempt in range(1000):
        rng = np.random.default_rng([model.seed, 2, attempt])
        prompt = rng.integers(3, model.n_vocab, PROMPT_LEN).tolist()
        record = common.continue_greedily(reference, prompt, N_GREEDY_TOKENS)
        ids = record["ids"]
        if min(record["gaps"]) >= MIN_GREEDY_GAP and min(ids) > 2 and len(set(ids)) >= MIN_GREEDY_DISTINCT:
            return record
    raise SystemExit(f"{model.name}: no prompt gives a clear greedy continuation; change its seed")


def golden_of(path, model):
    reference = common.load_model(path)
    n_vocab = model.n_vocab + model.n_padding
    rng = np.random.default_rng([model.seed, 1])
    sequences, max_probs = [], []
    for _ in range(N_SEQUENCES):
        record, log_probs = common.score(reference, rng.integers(0, n_vocab, SEQUENCE_LEN).tolist())
        record["last_logprobs"] = common.rounded(log_probs[-1])
        sequences.append(record)
        max_probs += log_probs.amax(dim=-1).exp().tolist()
    greedy = greedy_record(reference, model)
    low, middle, high = np.quantile(max_probs, [0.1, 0.5, 0.9])
    print(f"{path.name:34s} {path.stat().st_size:7d} bytes  largest probability {low:.2f} {middle:.2f} {high:.2f} "
          f"(10, 50, 90 %)  greedy: {len(set(greedy['ids']))} tokens, smallest gap {min(greedy['gaps']):.3f}",
          flush=True)
    return {"file": path.name, "sha256": common.sha256_of(path), "sequences": sequences, "greedy": greedy}


def check_tokenizer(path, text="The other café, the 12 tins & 99% of it.\n<|im_start|>日本<|im_end|>"):
    tokenizer = common.load_tokenizer(path)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    common.use_one_thread()
    args.out.mkdir(parents=True, exist_ok=True)
    goldens = []
    for model in TINY_MODELS:
        path = args.out / f"{model.name}.gguf"
        write_gguf(path, model, random_weights(model))
        check_tokenizer(path)
        goldens.append(golden_of(path, model))
    write_gguf(args.out / "vocab_only.gguf", VOCAB_ONLY, {})
    check_tokenizer(args.out / "vocab_only.gguf")
    n_bytes = common.write_json(args.out / "tiny_goldens.json", {"versions": common.library_versions()},
                                {"models": goldens})
    print(f"tiny_goldens.json: {n_bytes} bytes")
    assert n_bytes < MAX_JSON_BYTES


if __name__ == "__main__":
    main()
