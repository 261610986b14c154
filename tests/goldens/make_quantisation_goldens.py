"""Random rows and the blocks that the gguf package makes of them, bit for bit: README.md."""

import argparse
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as DType

import golden_common as common

SEED = 1
TYPES = (DType.Q8_0, DType.Q5_1, DType.Q5_0, DType.Q4_1, DType.Q4_0)
BLOCK_LEN = 32


def rows():
    """Blocks like weights, of many scales, and such as rounding is decided in: few values, ties, equal extremes."""
    rng = np.random.default_rng(SEED)
    blocks = [rng.normal(0, scale, (24, BLOCK_LEN)) for scale in (1e-3, 0.02, 1, 300)]
    blocks.append(rng.normal(0.5, 0.1, (8, BLOCK_LEN)))                      # far from zero: minima matter
    blocks.append(rng.integers(-8, 8, (16, BLOCK_LEN)) / 8)                  # ties
    blocks.append(rng.integers(-127, 128, (8, BLOCK_LEN)) / 2)
    blocks.append(rng.choice([-1.0, 1.0], (8, BLOCK_LEN)))                   # extremes of both signs
    blocks.append(np.stack([np.zeros(BLOCK_LEN), np.full(BLOCK_LEN, -2.5), np.full(BLOCK_LEN, 1e-7)]))
    return np.concatenate(blocks).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    values = rows()
    types = [{"type": dtype.name, "blocks": gguf.quants.quantize(values, dtype).tobytes().hex()} for dtype in TYPES]
    head = {"versions": {name: common.library_versions()[name] for name in ("gguf", "numpy")},
            "values": values.astype("<f4").tobytes().hex()}
    n_bytes = common.write_json(args.out, head, {"types": types})
    print(f"{args.out.name}: {n_bytes} bytes")


if __name__ == "__main__":
    main()
