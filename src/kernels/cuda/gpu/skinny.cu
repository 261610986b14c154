#include "kernels/cuda/gpu/gpu_launch.cuh"
#include "kernels/cuda/matmul/skinny_product.h"

BASS_SKINNY_KERNELS(BASS_COMPILE_KERNEL)
