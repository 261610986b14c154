"""Hostile and broken model files: a sentence that names the file and the place, exit code 2, at once, with little memory.

What the parsers refuse is tested beside them (src/io/gguf_test.cc, safetensors_test.cc); here are the classes that cost
time or memory where a reader is careless, and those that only a model's loading finds.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import make_corpus as files  # noqa: E402

SLOW_BUILD_FACTOR = float(os.environ.get("BASS_TEST_SLOWNESS", "1"))  # sanitizers
MAX_GROWTH_KIB = 64 << 10


def run_measured(binary, *arguments):
    """(exit code, standard error, CPU seconds, peak KiB of memory)"""
    process = subprocess.Popen([binary, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    err = process.stderr.read().decode("utf-8", "replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, err, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


@pytest.fixture(scope="module")
def base_kib(binary, tmp_path_factory):
    """Memory of a run that is refused before a file is read."""
    return run_measured(binary, "generate", "-m", tmp_path_factory.mktemp("none") / "none.gguf", "-p", "a")[3]


@pytest.fixture
def check_refused(binary, base_kib):
    def check(path, *needles):
        code, err, seconds, peak_kib = run_measured(binary, "generate", "-m", path, "-p", "a", "--threads", "1")
        assert code == 2, (code, err)
        assert err.startswith("error: ") and err.count("\n") == 1, err
        for needle in needles:
            assert needle in err, err
        assert seconds < 1.0 * SLOW_BUILD_FACTOR
        if SLOW_BUILD_FACTOR == 1:
            assert peak_kib - base_kib < MAX_GROWTH_KIB

    return check


def with_entry(key, kind, value):
    """The small model with one entry changed, added or (kind None) left out."""
    entries = [entry for entry in files.llama_metadata() if entry[0] != key]
    return files.llama(entries + ([(key, kind, value)] if kind is not None else []))


def u32(value):
    return struct.pack("<I", value)


def f32(value):
    return struct.pack("<f", value)


def strings(*values):
    return files.array(8, [files.text(value) for value in values])


def with_tensors(change):
    return files.llama(tensors=[t for tensor in files.llama_tensors() for t in change(*tensor)])


def test_the_small_model_is_good(binary, tmp_path):
    (tmp_path / "good.gguf").write_bytes(files.llama())
    assert run_measured(binary, "generate", "-m", tmp_path / "good.gguf", "-p", "a", "--max-tokens", "2")[0] == 0


GGUF_FILES = {
    "count 2^63": (b"GGUF" + struct.pack("<IQQ", 3, 1 << 63, 0), ["claims 9223372036854775808 tensors", "at byte 8"]),
    "count 2^64-1": (b"GGUF" + struct.pack("<IQQ", 3, 0, (1 << 64) - 1), ["metadata entries", "at byte 16"]),
    "array of 2^60": (with_entry("a", 9, struct.pack("<IQ", 5, 1 << 60)), ["'a' claims 1152921504606846976 elements"]),
    "strings of 2^60": (with_entry("a", 9, struct.pack("<IQ", 8, 1 << 60)), ["'a' claims 1152921504606846976 elements"]),
    "many empty strings": (with_entry("tokenizer.ggml.tokens", 9, files.array(8, [files.text("")] * 500_000)),
                           ["bad.gguf: "]),
    "text is no UTF-8": (with_entry("general.name", 8, struct.pack("<Q", 3) + b"a\xffb"),
                         ["invalid UTF-8 at its byte 1 (key 'general.name')"]),
    "a token is no UTF-8": (with_entry("tokenizer.ggml.tokens", 9,
                                       files.array(8, [files.text(t) for t in files.TOKENS[:-1]] + [struct.pack("<Q", 1) + b"\xff"])),
                            [f"element {len(files.TOKENS) - 1} has invalid UTF-8 (key 'tokenizer.ggml.tokens')"]),
    "key is no UTF-8": (files.llama().replace(b"llama.rope.freq_base", b"llama.rope.freq_bas\xff"),
                        ["a metadata key has invalid UTF-8"]),
    "no blocks": (with_entry("llama.block_count", 4, u32(0)), ["'llama.block_count' is 0, expected 1 to 1024"]),
    "2^31 blocks": (with_entry("llama.block_count", 4, u32(1 << 31)), ["'llama.block_count' is 2147483648, expected"]),
    "blocks as text": (with_entry("llama.block_count", 8, files.text("1")),
                       ["a string, need an integer (key 'llama.block_count')"]),
    "no head": (with_entry("llama.attention.head_count", 4, u32(0)), ["'llama.attention.head_count' is 0"]),
    "heads do not divide": (with_entry("llama.attention.head_count", 4, u32(3)), ["bad.gguf: ", "3"]),
    "KV heads do not divide": (with_entry("llama.attention.head_count_kv", 4, u32(5)), ["'llama.attention.head_count_kv'"]),
    "context 2^40": (with_entry("llama.context_length", 10, struct.pack("<Q", 1 << 40)),
                     ["1099511627776 is out of range", "(key 'llama.context_length')"]),
    "epsilon NaN": (with_entry("llama.attention.layer_norm_rms_epsilon", 6, f32(float("nan"))),
                    ["layer_norm_rms_epsilon' is nan"]),
    "rope base infinite": (with_entry("llama.rope.freq_base", 6, f32(float("inf"))), ["freq_base' is inf"]),
    "architecture": (with_entry("general.architecture", 8, files.text("mamba")), ["architecture 'mamba' is not supported"]),
    "weight NaN": (files.llama(data=struct.pack("<2e", 1, float("nan"))),
                   ["tensor 'token_embd.weight' holds a number that is not finite"]),
    "norm NaN": (files.llama(data=b"\0" * 32 * len(files.TOKENS) + struct.pack("<e", float("inf"))),
                 ["'output_norm.weight' holds a"]),
    "no such tensor": (with_tensors(lambda name, dims: [] if "attn_q" in name else [(name, dims)]),
                       ["'blk.0.attn_q.weight' is missing"]),
    "misshapen": (with_tensors(lambda name, dims: [(name, (16, 32) if "attn_k" in name else dims)]),
                  ["tensor 'blk.0.attn_k.weight' has shape [16, 32], expected [16, 16]"]),
    "a tensor more": (with_tensors(lambda name, dims: [(name, dims), ("more", (16,))] if "attn_q" in name else [(name, dims)]),
                      ["'more'"]),
    "merge of no tokens": (with_entry("tokenizer.ggml.merges", 9, strings("a c")),
                            ["bad.gguf: ", "merge 0", "(key 'tokenizer.ggml.merges')"]),
    "merge of one token": (with_entry("tokenizer.ggml.merges", 9, strings("a")),
                           ["merge 0 is 'a'", "(key 'tokenizer.ggml.merges')"]),
    "no scores": (with_entry("tokenizer.ggml.model", 8, files.text("llama")), ["(key 'tokenizer.ggml.scores')"]),
    "bos outside": (with_entry("tokenizer.ggml.bos_token_id", 4, u32(len(files.TOKENS))),
                    [f"{len(files.TOKENS)} is outside of the vocabulary", "(key 'tokenizer.ggml.bos_token_id')"]),
    "eos 2^32-1": (with_entry("tokenizer.ggml.eos_token_id", 4, u32((1 << 32) - 1)), ["tokenizer.ggml.eos_token_id"]),
    "types of another length": (with_entry("tokenizer.ggml.token_type", 9, files.array(5, [u32(1)] * 2)),
                                [f"2 entries for {len(files.TOKENS)} tokens (key 'tokenizer.ggml.token_type')"]),
    "scores of another length": (with_entry("tokenizer.ggml.scores", 9, files.array(6, [f32(0)] * 2)),
                                 [f"2 entries for {len(files.TOKENS)} tokens (key 'tokenizer.ggml.scores')"]),
    "scores of another kind": (with_entry("tokenizer.ggml.scores", 9, strings("a")), ["(key 'tokenizer.ggml.scores')"]),
    "types of another kind": (with_entry("tokenizer.ggml.token_type", 9, strings("a", "b", "c")),
                              ["(key 'tokenizer.ggml.token_type')"]),
    "tokens of another kind": (with_entry("tokenizer.ggml.tokens", 9, files.array(4, [u32(1)] * 3)),
                               ["(key 'tokenizer.ggml.tokens')"]),
    "more tokens than rows": (with_entry("tokenizer.ggml.tokens", 9, strings(*files.TOKENS, "c")),
                              ["bad.gguf: ", f"{len(files.TOKENS) + 1} tokens"]),
}


@pytest.mark.parametrize("name", GGUF_FILES)
def test_gguf(check_refused, tmp_path, name):
    content, needles = GGUF_FILES[name]
    (tmp_path / "bad.gguf").write_bytes(content)
    check_refused(tmp_path / "bad.gguf", "bad.gguf: ", *needles)


def test_gguf_larger_than_memory(check_refused, tmp_path):
    """Sparse: 1 TiB of zeros behind a valid beginning."""
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 34, 1 << 34))
    try:
        os.truncate(path, 1 << 40)
    except OSError:
        pytest.skip("the file system has no such large files")
    check_refused(path, "bad.gguf: ")


@pytest.mark.parametrize("path, needle", [("/dev/zero", "is a FIFO or device"), ("/dev", "is a directory")])
def test_no_files(check_refused, path, needle):
    check_refused(path, needle)


def entry(shape=(1,), begin=0, end=4, dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


SAFETENSORS_FILES = {
    "7 bytes": (b"1234567", ["truncated (at byte 7)"]),
    "header of 2^64-1": (struct.pack("<Q", (1 << 64) - 1) + b"{}", ["18446744073709551615 bytes, more than 100000000"]),
    "header above 100 MB": (struct.pack("<Q", 100_000_001) + b"{}", ["100000001 bytes, more than"]),
    "header above the file": (struct.pack("<Q", 50) + b"{}", ["claims 50 bytes, but only 2"]),
    "no object": (files.safetensors(b"[1]"), ["is no JSON object"]),
    "no UTF-8": (files.safetensors(b'{"a\xff":1}'), ["invalid UTF-8 (at byte"]),
    "depth 10^5": (files.safetensors(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), ["nested deeper than 64"]),
    "unclosed depth 10^5": (files.safetensors(b'{"a":' * 100_000), ["nested deeper than 64"]),
    "a name twice": (files.safetensors(b'{"a":{},"a":{}}'), ["(key 'a')"]),
    "dtype": (files.safetensors({"a": entry(dtype="Q4")}, b"\0" * 4), ["unknown dtype 'Q4' (key 'a')"]),
    "shape overflows": (files.safetensors({"a": entry((1 << 40, 1 << 40))}, b"\0" * 4), ["impossibly large (key 'a')"]),
    "many sizes": (files.safetensors({"a": entry((1,) * 300_000)}, b"\0" * 4), ["config.json: cannot open"]),
    "50 000 tensors": (files.safetensors({f"t{i}": entry((0,), 0, 0) for i in range(50_000)}), ["config.json: cannot open"]),
    "a gap": (files.safetensors({"a": entry(begin=4, end=8)}, b"\0" * 8), ["4 bytes of data before the tensor"]),
}


@pytest.mark.parametrize("name", SAFETENSORS_FILES)
def test_safetensors(check_refused, tmp_path, name):
    content, needles = SAFETENSORS_FILES[name]
    (tmp_path / "bad.safetensors").write_bytes(content)
    check_refused(tmp_path / "bad.safetensors", str(tmp_path), *needles)


@pytest.mark.parametrize("weight_map, needles", [
    ({"a": "../secret.safetensors"}, ["'../secret.safetensors' is no name of a file beside the index"]),
    ({"a": "/etc/passwd"}, ["'/etc/passwd' is no name of a file beside the index"]),
    ({"a": "none.safetensors"}, ["none.safetensors: cannot open"]),
    ({"a": "one.safetensors", "b": "one.safetensors"}, ["one.safetensors does not hold the tensor (key 'weight_map.b')"]),
    ({"a": "one.safetensors", "b": "two.safetensors"}, ["the tensor is in"]),
    (5, ["need a file's name, not a number (key 'weight_map')"]),
])
def test_index(check_refused, tmp_path, weight_map, needles):
    for name in ("one", "two"):
        (tmp_path / f"{name}.safetensors").write_bytes(files.safetensors({"a": entry()}, b"\0" * 4))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    check_refused(tmp_path, str(tmp_path), *needles)


def test_a_checkpoint_is_checked_before_its_tensors_are_made(run, check_refused, tmp_path):
    files.write_checkpoint(tmp_path)
    assert run("generate", "-m", ".", "-p", "a", "--max-tokens", "1").code == 0
    for n_elements, needle in ((1 << 22, "'output_norm.weight' has shape [4194304], expected [16]"),
                               (1 << 31, "tensor 'model.norm.weight' is impossibly large"),
                               ((1 << 31) - 1, "tensor 'model.norm.weight' is impossibly long")):
        files.write_checkpoint(tmp_path, n_elements)
        check_refused(tmp_path, needle)
        done = run("convert", ".", "-o", "x.gguf")
        assert done.code == 2 and needle in done.err and not (tmp_path / "x.gguf").exists()


USUAL = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 16, "intermediate_size": 16,
         "max_position_embeddings": 64}
# Numbers of config.json that lists would be made of.
LARGE_CONFIGS = {
    "rows": ({"model_type": "codegen", "n_layer": 1, "n_embd": 1 << 30, "n_head": 1 << 18, "n_positions": 16,
              "rotary_dim": 16}, {}, ["is 1073741824, need 1 to 1048576", "hidden_size"]),
    "heads": ({"model_type": "llama", **USUAL, "hidden_size": 1 << 20, "num_attention_heads": 1 << 20, "head_dim": 4096},
              {}, ["is 1048576, need 1 to 256", "num_attention_heads"]),
    "rows of layers that are not there": (
        {"model_type": "codegen", "n_layer": 1024, "n_embd": 1 << 20, "n_head": 1 << 11, "n_positions": 16, "rotary_dim": 16},
        {}, ["transformer.h.0.attn.qkv_proj.weight' is missing"]),
    "positions": ({"model_type": "opt", **USUAL, "activation_function": "relu", "vocab_size": 1},
                  {"model.decoder.embed_positions.weight": [1 << 29, 0]}, []),
    "experts": ({"model_type": "mixtral", **USUAL, "num_hidden_layers": 1024, "num_local_experts": 4096,
                 "num_experts_per_tok": 2}, {}, ["model."]),
}


@pytest.mark.parametrize("name", LARGE_CONFIGS)
def test_a_config_of_large_numbers_is_refused_at_once(check_refused, tmp_path, name):
    config, shapes, needles = LARGE_CONFIGS[name]
    files.write_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    header = {tensor: {"dtype": "F16", "shape": shape, "data_offsets": [0, 0]} for tensor, shape in shapes.items()}
    (tmp_path / "model.safetensors").write_bytes(files.safetensors({**header, "a": entry()}, b"\0" * 4))
    check_refused(tmp_path, *needles)


def test_a_file_that_is_cut_while_it_is_read(binary, smollm2, tmp_path):
    """Whenever that happens: a sentence or a result, never a signal."""
    path = tmp_path / "cut.gguf"
    content = pathlib.Path(smollm2).read_bytes()
    n_refused = 0
    for delay in (0.01, 0.02, 0.03, 0.05, 0.08, 0.12):
        path.write_bytes(content)
        process = subprocess.Popen([binary, "generate", "-m", path, "-p", "a", "--max-tokens", "1", "--threads", "1"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(delay)
        os.truncate(path, 4096)
        err = process.communicate()[1].decode()
        assert process.returncode in (0, 2), err
        n_refused += process.returncode == 2
        assert process.returncode == 0 or "cut.gguf" in err
    assert n_refused > 0
