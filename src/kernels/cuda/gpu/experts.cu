#include "kernels/cuda/experts/route_rows.h"
#include "kernels/cuda/gpu/gpu_launch.cuh"

BASS_EXPERT_KERNELS(BASS_COMPILE_KERNEL)
