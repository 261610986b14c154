#include "kernels/cuda/gpu/gpu_launch.cuh"
#include "kernels/cuda/matmul/tile_product.h"

BASS_TILE_4_KERNELS(BASS_COMPILE_KERNEL)
