"""Seeds for the fuzz targets of file formats: small valid files, and one for each branch that a random change misses."""
import json
import math
import os
import pathlib
import struct
import sys


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf(metadata, tensors, version=3, data=b""):
    """metadata: (key, type, packed value); tensors: (name, dims, type, offset)."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, kind, value in metadata:
        out += text(key) + struct.pack("<I", kind) + value
    for name, dims, kind, offset in tensors:
        out += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return out + b"\0" * (-len(out) % 32) + data if tensors else out


def array(kind, values):
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def u32(key, value):
    return key, 4, struct.pack("<I", value)


def byte_tokens():
    """The 256 bytes as byte-level vocabularies spell them."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]


TOKENS = [*byte_tokens(), "ab", "<end>"]
TOKEN_TYPES = [1] * 257 + [3]


def vocab_metadata(tokens=TOKENS, types=TOKEN_TYPES):
    return [("tokenizer.ggml.model", 8, text("gpt2")), ("tokenizer.ggml.pre", 8, text("smollm")),
            ("tokenizer.ggml.tokens", 9, array(8, [text(t) for t in tokens])),
            ("tokenizer.ggml.token_type", 9, array(5, [struct.pack("<i", t) for t in types])),
            ("tokenizer.ggml.merges", 9, array(8, [text("a b")])), u32("tokenizer.ggml.eos_token_id", len(tokens) - 1)]


def llama_metadata():
    return [("general.architecture", 8, text("llama")), u32("llama.block_count", 1), u32("llama.embedding_length", 16),
            u32("llama.feed_forward_length", 16), u32("llama.attention.head_count", 1), u32("llama.context_length", 64),
            ("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
            ("llama.rope.freq_base", 6, struct.pack("<f", 1e4)), *vocab_metadata()]


def llama_tensors():
    """(name, dims), F16."""
    names = [("token_embd.weight", (16, len(TOKENS))), ("output_norm.weight", (16,)), ("blk.0.attn_norm.weight", (16,)),
             ("blk.0.ffn_norm.weight", (16,))]
    return names + [(f"blk.0.{n}.weight", (16, 16)) for n in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate",
                                                              "ffn_up", "ffn_down")]


def llama(metadata=None, tensors=None, data=b""):
    """A small model. data: the first bytes of its tensors, zeros otherwise."""
    placed, offset = [], 0
    for name, dims in tensors or llama_tensors():
        placed.append((name, dims, 1, offset))
        offset += -(-2 * dims[0] * (dims[1] if len(dims) > 1 else 1) // 32) * 32
    return gguf(metadata or llama_metadata(), placed, data=data + b"\0" * (offset - len(data)))


def gguf_seeds():
    yield "empty", gguf([], [])
    yield "vocab", gguf([llama_metadata()[0], *vocab_metadata(["a", "b", "ab"], [1, 1, 3])], [], version=2)
    kinds = [("u8", 0, b"\1"), ("i16", 3, b"\1\0"), ("bool", 7, b"\1"), ("u64", 10, b"\1" * 8), ("f64", 12, b"\1" * 8),
             ("floats", 9, array(6, [b"\0\0\x80\x3f"])), u32("general.alignment", 64), u32("split.count", 2)]
    yield "kinds", gguf(kinds, [("q", (32, 2), 8, 0), ("k", (256,), 12, 128)], data=b"\0" * 512)
    yield "llama", llama()


def safetensors(header, data=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def write_checkpoint(folder, norm_len=16):
    """A small Hugging Face checkpoint of zeros, which are a hole in its file. norm_len: of the last norm."""
    config = {"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1,
              "intermediate_size": 16, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
    tokenizer = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": []}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    layer = ["input_layernorm", "post_attention_layernorm", *(f"self_attn.{n}_proj" for n in "qkvo"),
             *(f"mlp.{n}_proj" for n in ("gate", "up", "down"))]
    shapes = {"model.embed_tokens.weight": [1, 16], "model.norm.weight": [norm_len],
              **{f"model.layers.0.{name}.weight": [16] * (1 if "norm" in name else 2) for name in layer}}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    path = folder / "model.safetensors"
    path.write_bytes(safetensors(header))
    os.truncate(path, path.stat().st_size + end)


def safetensors_seeds():
    def entry(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    yield "empty", safetensors({})
    yield "two", safetensors({"__metadata__": {"format": "pt"}, "a.weight": entry("F32", [2, 2], 0, 16),
                              "b": entry("BF16", [], 16, 18)}, b"\0" * 18)
    yield "none", safetensors({"a": entry("F16", [0, 4], 0, 0), "é": entry("BOOL", [3], 0, 3)}, b"\0\0\0")
    yield "gap", safetensors({"a": entry("U8", [1], 1, 2)}, b"\0\0")
    yield "nested", safetensors(b'{"a":{"dtype":[[{"b":1}]]},"c":-1.5e3,"d":null}')
    yield "escape", safetensors(b'{"a\\u00e9":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   ', b"\0" * 4)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus")
    for kind, seeds in (("gguf", gguf_seeds()), ("safetensors", safetensors_seeds())):
        (root / kind).mkdir(parents=True, exist_ok=True)
        for name, data in seeds:
            (root / kind / name).write_bytes(data)


if __name__ == "__main__":
    main()
