#include "kernels/cuda/gpu/gpu_launch.cuh"
#include "kernels/cuda/matmul/product.h"

BASS_COMPILE_KERNEL(AddBias)
BASS_COMPILE_KERNEL(ScaleSums)
BASS_COMPILE_KERNEL(FloatProduct)
BASS_COMPILE_KERNEL(Product4)
BASS_COMPILE_KERNEL(Product4Minima)
BASS_COMPILE_KERNEL(Product4Whole)
BASS_COMPILE_KERNEL(Product8)
BASS_COMPILE_KERNEL(Product8Minima)
BASS_COMPILE_KERNEL(Product8Whole)
BASS_COMPILE_KERNEL(Product8Half)
BASS_COMPILE_KERNEL(Product8HalfMinima)
