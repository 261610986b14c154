"""From transformers' names and conventions to those of GGUF files: what a conversion of each architecture does.

The conventions are those of llama.cpp's files where it knows the architecture (q and k of a llama have their rotated
pairs side by side, gemma's norm weights are stored + 1, q, k and v of a gptneox lie one behind the other); opt and
codegen are ours (README.md).
"""

import math

import numpy as np

LLAMA_GLOBALS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LLAMA_BLOCKS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GEMMA_BLOCKS = LLAMA_BLOCKS | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm"}
PHI_BLOCKS = LLAMA_BLOCKS | {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
STARCODER_BLOCKS = LLAMA_BLOCKS | {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
EXPERT_BLOCKS = LLAMA_BLOCKS | {
    "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_up_proj": "experts", "mlp.experts.down_proj": "ffn_down_exps"}
GPT_GLOBALS = {"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
               "lm_head": "output"}
GPT2_BLOCKS = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
               "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GPTJ_BLOCKS = {"ln_1": "attn_norm", "attn.q_proj": "attn_q", "attn.k_proj": "attn_k", "attn.v_proj": "attn_v",
               "attn.qkv_proj": "codegen_qkv", "attn.out_proj": "attn_output", "mlp.fc_in": "ffn_up",
               "mlp.fc_out": "ffn_down"}
NEOX_GLOBALS = {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "lm_head": "output"}
NEOX_BLOCKS = {"input_layernorm": "attn_norm", "attention.query_key_value": "neox_qkv",
               "attention.dense": "attn_output", "post_attention_layernorm": "ffn_norm",
               "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
OPT_GLOBALS = {"model.decoder.embed_tokens": "token_embd", "model.decoder.embed_positions": "position_embd",
               "model.decoder.final_layer_norm": "output_norm", "lm_head": "output"}
OPT_BLOCKS = {"self_attn_layer_norm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
              "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_output", "final_layer_norm": "ffn_norm",
              "fc1": "ffn_up", "fc2": "ffn_down"}
LLAMA_NAMES = (LLAMA_GLOBALS, EXPERT_BLOCKS)
OTHER_NAMES = {  # GGUF architecture -> (names outside of blocks, names in them), where they are not a llama's
    "gemma2": (LLAMA_GLOBALS, GEMMA_BLOCKS), "gemma3": (LLAMA_GLOBALS, GEMMA_BLOCKS), "phi3": (LLAMA_GLOBALS, PHI_BLOCKS),
    "starcoder2": (LLAMA_GLOBALS, STARCODER_BLOCKS), "gpt2": (GPT_GLOBALS, GPT2_BLOCKS), "gptj": (GPT_GLOBALS, GPTJ_BLOCKS),
    "codegen": (GPT_GLOBALS, GPTJ_BLOCKS), "gptneox": (NEOX_GLOBALS, NEOX_BLOCKS), "opt": (OPT_GLOBALS, OPT_BLOCKS)}
OPT_POSITION_OFFSET = 2
CODEGEN_PARTS = 4


def gguf_name(arch, name):
    """transformers' parameter name -> GGUF's (biases and experts keep what marks them)."""
    global_names, block_names = OTHER_NAMES.get(arch, LLAMA_NAMES)
    stem, dot, kind = name.rpartition(".")
    if kind not in ("weight", "bias"):
        stem, dot, kind = name, "", ""
    if stem in global_names:
        return f"{global_names[stem]}.{kind}"
    parts = stem.split(".")
    i = next(i for i, part in enumerate(parts) if part.isdigit())
    return f"blk.{parts[i]}.{block_names['.'.join(parts[i + 1:])]}{dot}{kind}"


def side_by_side(rows, n_heads):
    """Halves of each head to pairs: rows (0, h/2), (1, h/2 + 1), ..."""
    halves = rows.reshape(n_heads, 2, rows.shape[0] // n_heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def one_behind_the_other(rows, n_heads):
    """gptneox: [n_heads, (q, k, v), head_dim] -> [q | k | v]"""
    heads = rows.reshape(n_heads, 3, -1, *rows.shape[1:])
    return heads.swapaxes(0, 1).reshape(rows.shape)


def codegen_parts(rows):
    """codegen: [parts, (q, v, k), heads of the part] -> q, k, v"""
    parts = rows.reshape(CODEGEN_PARTS, 3, -1, rows.shape[1])
    return [parts[:, i].reshape(-1, rows.shape[1]) for i in (0, 2, 1)]


def to_gguf(arch, config, weights):
    """transformers' weights -> {GGUF name: values}. weights: {name: float32 array}"""
    tensors = {}
    n_heads = config.num_attention_heads
    n_kv_heads = getattr(config, "num_key_value_heads", None) or n_heads
    for name, values in weights.items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        target = gguf_name(arch, name)
        stem = target.rpartition(".")[0].rpartition(".")[2]
        if arch in ("llama", "smollm3") and stem in ("attn_q", "attn_k"):
            values = side_by_side(values, n_heads if stem == "attn_q" else n_kv_heads)
        if arch.startswith("gemma") and stem.endswith("norm"):
            values = values + 1
        if arch == "gpt2" and values.ndim == 2 and target.startswith("blk."):
            values = values.T  # Conv1D
        if arch == "opt" and target.startswith("position_embd"):
            values = values[OPT_POSITION_OFFSET:]
        if stem == "neox_qkv":
            target, values = target.replace("neox_qkv", "attn_qkv"), one_behind_the_other(values, n_heads)
        if stem == "codegen_qkv":
            for kind, part in zip(("attn_q", "attn_k", "attn_v"), codegen_parts(values)):
                tensors[target.replace("codegen_qkv", kind)] = part
            continue
        if target.endswith(".experts"):  # [n_experts, gate and up, d_model]
            for kind, part in zip(("ffn_gate_exps", "ffn_up_exps"), np.split(values, 2, axis=1)):
                tensors[target.replace("experts", kind) + ".weight"] = part
            continue
        if target.endswith("_exps"):
            target += ".weight"
        tensors[target] = np.ascontiguousarray(values)
    return tensors | rope_factors(config)


def rope_parameters(config):
    """Those of full attention."""
    parameters = getattr(config, "rope_parameters", None) or {}
    return parameters.get("full_attention", parameters)


def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def rope_factors(config):
    """Tensors by whose elements a file's reader divides the frequencies."""
    rope = rope_parameters(config)
    kind = rope.get("rope_type", "default")
    if kind == "longrope":
        return {f"rope_factors_{which}.weight": np.array(rope[f"{which}_factor"], np.float32)
                for which in ("short", "long")}
    if kind != "llama3":
        return {}
    dim, old_len = head_dim_of(config), rope["original_max_position_embeddings"]
    factors = []
    for i in range(0, dim, 2):
        wave_len = 2 * math.pi * rope["rope_theta"] ** (i / dim)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = min(max((old_len / wave_len - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return {"rope_freqs.weight": np.array(factors, np.float32)}


def add_metadata(writer, arch, config):
    """The keys that describe the shape."""
    n_heads = config.num_attention_heads
    number = lambda key, value: writer.add_uint32(f"{arch}.{key}", value)
    real = lambda key, value: writer.add_float32(f"{arch}.{key}", value)
    number("block_count", config.num_hidden_layers)
    number("context_length", config.max_position_embeddings)
    number("embedding_length", config.hidden_size)
    number("attention.head_count", n_heads)
    number("attention.head_count_kv", getattr(config, "num_key_value_heads", None) or n_heads)
    feed_forward_len = next((value for name in ("intermediate_size", "ffn_dim", "n_inner")
                             if (value := getattr(config, name, None))), 4 * config.hidden_size)
    number("feed_forward_length", feed_forward_len)
    if getattr(config, "head_dim", None):
        number("attention.key_length", config.head_dim)
        number("attention.value_length", config.head_dim)
    if hasattr(config, "rms_norm_eps"):
        real("attention.layer_norm_rms_epsilon", config.rms_norm_eps)
    else:
        names = ("layer_norm_epsilon", "layer_norm_eps", "norm_epsilon")
        real("attention.layer_norm_epsilon", next((getattr(config, name) for name in names if hasattr(config, name)), 1e-5))
    add_rope(number, real, writer, arch, config)
    if getattr(config, "sliding_window", None):
        number("attention.sliding_window", config.sliding_window)
    if arch == "gemma2":
        real("attn_logit_softcapping", config.attn_logit_softcapping)
        real("final_logit_softcapping", config.final_logit_softcapping)
    if arch in ("gemma2", "gemma3"):
        real("attention.scale", config.query_pre_attn_scalar ** -0.5)
        writer.add_array(f"{arch}.attention.sliding_window_pattern",
                         [kind == "sliding_attention" for kind in config.layer_types])
    if hasattr(config, "use_parallel_residual"):
        writer.add_bool(f"{arch}.use_parallel_residual", config.use_parallel_residual)
    n_experts = getattr(config, "num_experts", 0) or getattr(config, "num_local_experts", 0)
    if n_experts:
        number("expert_count", n_experts)
        number("expert_used_count", config.num_experts_per_tok)
        if hasattr(config, "moe_intermediate_size"):
            number("expert_feed_forward_length", config.moe_intermediate_size)


def add_rope(number, real, writer, arch, config):
    rope = rope_parameters(config)
    if getattr(config, "rotary_dim", None):
        number("rope.dimension_count", config.rotary_dim)
    if not rope:
        return
    real("rope.freq_base", rope["rope_theta"])
    if "rotary_dim" not in config.to_dict():
        number("rope.dimension_count", int(head_dim_of(config) * rope.get("partial_rotary_factor", 1.0)))
    if "sliding_attention" in config.rope_parameters:
        real("rope.freq_base_swa", config.rope_parameters["sliding_attention"]["rope_theta"])
    if rope.get("rope_type") == "linear":
        writer.add_string(f"{arch}.rope.scaling.type", "linear")
        real("rope.scaling.factor", rope["factor"])
    if rope.get("rope_type") == "yarn":
        writer.add_string(f"{arch}.rope.scaling.type", "yarn")
        real("rope.scaling.factor", rope["factor"])
        number("rope.scaling.original_context_length", rope["original_max_position_embeddings"])
    if rope.get("rope_type") == "longrope":
        old_len = rope["original_max_position_embeddings"]
        writer.add_string(f"{arch}.rope.scaling.type", "longrope")
        number("rope.scaling.original_context_length", old_len)
        scale = config.max_position_embeddings / old_len
        real("rope.scaling.attn_factor", math.sqrt(1 + math.log(scale) / math.log(old_len)) if scale > 1 else 1.0)
