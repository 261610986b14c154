#include "kernels/cuda/gpu/gpu_launch.cuh"
#include "kernels/cuda/sampling/sampling_kernels.h"

BASS_COMPILE_KERNEL(DraftRows)
BASS_COMPILE_KERNEL(VerifyRows)
BASS_COMPILE_KERNEL(WeighRows)
BASS_COMPILE_KERNEL(JudgeRounds)
