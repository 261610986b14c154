"""Random blocks of the GGUF types that the gguf package reads but does not write.

Quants are uniform; scales are such that the weights have mean 0 (nearly) and a given deviation, as a model needs.
"""

import gguf
import numpy as np
from gguf import GGMLQuantizationType as DType

TYPES = (DType.Q2_K, DType.Q3_K, DType.Q4_K, DType.Q5_K, DType.Q6_K, DType.IQ4_NL)
# Where the f16 numbers of a block lie: d, and m or the minima's factor.
HALF_OFFSETS = {DType.Q4_0: [0], DType.Q4_1: [0, 2], DType.Q5_0: [0], DType.Q5_1: [0, 2], DType.Q8_0: [0],
                DType.Q2_K: [80, 82], DType.Q3_K: [108], DType.Q4_K: [0, 2], DType.Q5_K: [0, 2], DType.Q6_K: [208],
                DType.IQ4_NL: [0]}
MEAN_QUANT = {DType.Q2_K: 1.5, DType.Q4_K: 7.5, DType.Q5_K: 15.5}  # types with minima


def near(rng, scales, limit):
    """Whole numbers near others, so that a minimum takes its group's mean away, but is not the scale again."""
    return np.clip(scales.astype(np.int16) + rng.integers(-1, 2, scales.shape), 0, limit).astype(np.uint8)


def pack_k4_scales(scales, minima):
    """6-bit numbers [n, 8] each to [n, 12] bytes, as Q4_K and Q5_K have them."""
    low = (scales[:, :4] | (scales[:, 4:] >> 4 << 6), minima[:, :4] | (minima[:, 4:] >> 4 << 6))
    return np.concatenate([*low, (scales[:, 4:] & 15) | ((minima[:, 4:] & 15) << 4)], axis=1)


def set_scales(rng, dtype, blocks):
    """Ties minima to scales where a type has them; those of the others are random already."""
    n_blocks = len(blocks)
    if dtype == DType.Q2_K:
        scales = rng.integers(0, 16, (n_blocks, 16), dtype=np.uint8)
        blocks[:, :16] = scales | near(rng, scales, 15) << 4
    if dtype in (DType.Q4_K, DType.Q5_K):
        scales = rng.integers(0, 64, (n_blocks, 8), dtype=np.uint8)
        blocks[:, 4:16] = pack_k4_scales(scales, near(rng, scales, 63))


def set_halves(dtype, blocks, factors):
    """d = factor; the minima's factor = factor times the mean quant."""
    for offset, scale in zip(HALF_OFFSETS[dtype], (1.0, MEAN_QUANT.get(dtype))):
        blocks[:, offset:offset + 2] = (factors * scale).astype(np.float16)[:, None].view(np.uint8)


def random_blocks(rng, dtype, shape, deviation):
    """Bytes of a matrix: [n_outputs, bytes of a row]. shape: (n_outputs, n_inputs)"""
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[dtype]
    n_blocks = shape[0] * shape[1] // block_len
    blocks = rng.integers(0, 256, (n_blocks, block_bytes), dtype=np.uint8)
    set_scales(rng, dtype, blocks)
    set_halves(dtype, blocks, np.full(n_blocks, 1 / 64))
    factor = deviation / 64 / gguf.quants.dequantize(blocks, dtype).std()
    set_halves(dtype, blocks, factor * rng.uniform(0.8, 1.2, n_blocks))
    return blocks.reshape(shape[0], -1)
