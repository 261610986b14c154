#!/usr/bin/env python3
"""Makes a poor draft of a good one: a share of its weights (of 4 bits, packed in bytes) becomes random. It costs as much
as the good one and is accepted rarely."""

import argparse
import pathlib
import shutil

import gguf
import numpy

_SCALE_BYTES = {"Q4_0": 2, "Q4_1": 4}  # at the start of a block
_BLOCK_BYTES = {"Q4_0": 18, "Q4_1": 20}


def spoil(path, share, seed):
    """Overwrites that share of the bytes that hold weights; returns how many tensors have such."""
    generator = numpy.random.default_rng(seed)
    n_spoilt = 0
    for tensor in gguf.GGUFReader(path, "r+").tensors:
        kind = tensor.tensor_type.name
        if kind not in _BLOCK_BYTES:
            continue
        weights = tensor.data.reshape(-1, _BLOCK_BYTES[kind])[:, _SCALE_BYTES[kind]:]
        is_spoilt = generator.random(weights.shape) < share
        weights[is_spoilt] = generator.integers(0, 256, int(is_spoilt.sum()), dtype=numpy.uint8)
        n_spoilt += 1
    return n_spoilt


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("draft", type=pathlib.Path, metavar="DRAFT.gguf")
    parser.add_argument("poor", type=pathlib.Path, metavar="POOR.gguf")
    parser.add_argument("--share", type=float, default=0.5, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shutil.copyfile(options.draft, options.poor)
    if spoil(options.poor, options.share, options.seed) == 0:
        options.poor.unlink()
        parser.error(f"{options.draft}: has no tensor of {' or '.join(_BLOCK_BYTES)}")


if __name__ == "__main__":
    main()
