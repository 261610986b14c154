#include "kernels/cuda/gpu/gpu_launch.cuh"
#include "kernels/cuda/rows/scale_rows.h"

BASS_COMPILE_KERNEL(ScaleRows)
