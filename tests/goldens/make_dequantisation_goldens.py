"""Random blocks of every GGUF type and the numbers that the gguf package reads from them, bit for bit: README.md."""

import argparse
import pathlib

import gguf
import numpy as np

import golden_common as common
import random_blocks

SEED = 1
N_VALUES = 1536  # a type
DType = gguf.GGMLQuantizationType
HALF_OFFSETS = {DType.F32: [], DType.F16: [], DType.BF16: [], **random_blocks.HALF_OFFSETS}  # numbers: any bits
# Zeros of both signs, subnormal numbers, the largest ones and infinity.
EXTREME_HALVES = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00], dtype=np.uint16)


def make_blocks(rng, dtype):
    """Blocks of random bytes; the first half has ordinary f16 numbers, the second also extreme ones."""
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[dtype]
    n_blocks = N_VALUES // block_len
    blocks = rng.integers(0, 256, (n_blocks, block_bytes), dtype=np.uint8)
    for offset in HALF_OFFSETS[dtype]:
        halves = rng.normal(0, 0.1, n_blocks).astype(np.float16).view(np.uint16)
        is_extreme = np.arange(n_blocks) >= n_blocks // 2
        halves = np.where(is_extreme, rng.choice(EXTREME_HALVES, n_blocks), halves)
        blocks[:, offset:offset + 2] = halves[:, None].view(np.uint8)
    return blocks


def golden_of(dtype):
    blocks = make_blocks(np.random.default_rng([SEED, int(dtype)]), dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        values = gguf.quants.dequantize(blocks, dtype)
    assert values.dtype == np.float32 and values.size == N_VALUES
    return {"type": dtype.name, "number": int(dtype), "blocks": blocks.tobytes().hex(),
            "values": values.astype("<f4").tobytes().hex()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    head = {"versions": {name: common.library_versions()[name] for name in ("gguf", "numpy")}}
    n_bytes = common.write_json(args.out, head, {"types": [golden_of(dtype) for dtype in HALF_OFFSETS]})
    print(f"{args.out.name}: {n_bytes} bytes")


if __name__ == "__main__":
    main()
