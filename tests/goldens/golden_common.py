"""What the golden scripts share: GGUF file -> transformers model in float32, tokenizer, and the stored figures.

Nothing here uses BASS: the goldens are an independent opinion.
"""

import hashlib
import json
import pathlib
from importlib.metadata import version

import gguf
import numpy as np
import tokenizers
import torch
import transformers

N_DECIMALS = 6
SPECIAL_TOKEN_TYPES = (int(gguf.TokenType.CONTROL), int(gguf.TokenType.USER_DEFINED))
BLOCK_WEIGHTS = {  # GGUF name -> transformers name, inside of a block
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
GLOBAL_WEIGHTS = {
    "token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def use_one_thread():
    """One thread and deterministic kernels: the same file gives the same figures."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def sha256_of(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def library_versions():
    names = ("torch", "transformers", "tokenizers", "gguf", "numpy")
    return {name: version(name).split("+")[0] for name in names}


def read_metadata(reader):
    return {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}


def undo_rope_permutation(weight, n_heads):
    """GGUF stores the q and k rows of a llama head as rotation pairs (0, h/2), (1, h/2 + 1), ... side by side
    (interleaved rope); transformers wants the two halves of a head one after the other.

    weight: [n_heads * head_dim, n_inputs]
    """
    n_rows, n_inputs = weight.shape
    pairs = weight.reshape(n_heads, n_rows // n_heads // 2, 2, n_inputs)
    return pairs.swapaxes(1, 2).reshape(n_rows, n_inputs)


def transformers_name(gguf_name):
    if gguf_name in GLOBAL_WEIGHTS:
        return GLOBAL_WEIGHTS[gguf_name]
    _, block_idx, kind, _ = gguf_name.split(".")
    return f"model.layers.{block_idx}.{BLOCK_WEIGHTS[kind]}.weight"


def read_weights(reader, metadata, permuted=True):
    """All tensors in float32 under their transformers names."""
    n_heads = {"attn_q": metadata["llama.attention.head_count"], "attn_k": metadata["llama.attention.head_count_kv"]}
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        kind = tensor.name.split(".")[-2]
        if permuted and kind in n_heads:
            values = undo_rope_permutation(values, n_heads[kind])
        weights[transformers_name(tensor.name)] = torch.from_numpy(np.array(values))
    return weights


def load_model(path, permuted=True):
    """LlamaForCausalLM in float32 on the file's dequantised weights. permuted=False is the negative control."""
    reader = gguf.GGUFReader(path)
    metadata = read_metadata(reader)
    weights = read_weights(reader, metadata, permuted)
    tied = "lm_head.weight" not in weights
    if tied:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    n_heads = metadata["llama.attention.head_count"]
    config = transformers.LlamaConfig(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=metadata["llama.embedding_length"],
        intermediate_size=metadata["llama.feed_forward_length"],
        num_hidden_layers=metadata["llama.block_count"],
        num_attention_heads=n_heads,
        num_key_value_heads=metadata["llama.attention.head_count_kv"],
        head_dim=metadata["llama.embedding_length"] // n_heads,
        max_position_embeddings=metadata["llama.context_length"],
        rms_norm_eps=metadata["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": metadata["llama.rope.freq_base"]},
        tie_word_embeddings=tied, attention_bias=False, mlp_bias=False,
        attn_implementation="eager", dtype=torch.float32, use_cache=False)
    model = transformers.LlamaForCausalLM(config).float().eval()
    model.load_state_dict(weights, strict=True)
    check_rope(model, metadata)
    return model


def check_rope(model, metadata):
    """The rope base reached the model (a renamed config key would be ignored silently)."""
    head_dim = metadata["llama.rope.dimension_count"]
    expected = metadata["llama.rope.freq_base"] ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    torch.testing.assert_close(model.model.rotary_emb.inv_freq.double(), expected, rtol=1e-5, atol=0.0)


def load_tokenizer(path):
    """Byte-level BPE with single digits (the `smollm` rules) from the vocabulary and merges of the GGUF file."""
    metadata = read_metadata(gguf.GGUFReader(path))
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({text: i for i, text in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    types = metadata["tokenizer.ggml.token_type"]
    special = [text for text, kind in zip(tokens, types) if kind in SPECIAL_TOKEN_TYPES]
    tokenizer.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False) for text in special])
    assert tokenizer.get_vocab_size() == len(tokens)
    return tokenizer


@torch.no_grad()
def log_probs_of(model, ids):
    """Natural log-probabilities. Row i is the distribution of token i + 1. [n_tokens, n_vocab]"""
    return torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), dim=-1)


def rounded(values):
    return [round(float(value), N_DECIMALS) for value in values]


def argmax_and_gaps(log_probs):
    """The likeliest id of each row, and by how much its log-probability leads the second's."""
    top = torch.topk(log_probs, 2, dim=-1)
    gaps = top.values[:, 0] - top.values[:, 1]
    assert bool((gaps > 0).all()), "a tie: choose another text or seed"
    return top.indices[:, 0].tolist(), gaps


def next_token_log_probs(log_probs, ids):
    return log_probs[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]  # [n_tokens - 1]


def score(model, ids):
    """The stored figures of one sequence, and the log-probabilities they come from. [n_tokens, n_vocab]"""
    log_probs = log_probs_of(model, ids)
    argmax, gaps = argmax_and_gaps(log_probs)
    record = {"ids": ids, "logprobs": rounded(next_token_log_probs(log_probs, ids)), "argmax": argmax,
              "gaps": rounded(gaps)}
    return record, log_probs


def continue_greedily(model, prompt_ids, n_tokens):
    """n_tokens argmax tokens after the prompt, each computed from scratch (no cache). End tokens do not stop it."""
    ids, gaps, log_probs = list(prompt_ids), [], []
    for _ in range(n_tokens):
        last = log_probs_of(model, ids)[-1:]
        argmax, gap = argmax_and_gaps(last)
        ids.append(argmax[0])
        gaps.append(float(gap[0]))
        log_probs.append(float(last[0, argmax[0]]))
    return {"prompt_ids": list(prompt_ids), "ids": ids[len(prompt_ids):], "logprobs": rounded(log_probs),
            "gaps": rounded(gaps)}


def write_json(path, head, lists):
    """One object: the keys of head, then lists of records with a record a line, so that diffs stay readable."""
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for name, records in lists.items():
        lines = ",\n".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records)
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
    text = "{" + ",\n".join(parts) + "}\n"
    json.loads(text)
    pathlib.Path(path).write_text(text, encoding="utf-8")
    return len(text.encode("utf-8"))
