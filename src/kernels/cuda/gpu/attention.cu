#include "kernels/cuda/attention/fused_plan.h"
#include "kernels/cuda/attention/padded_attention.h"
#include "kernels/cuda/gpu/gpu_launch.cuh"

BASS_COMPILE_KERNEL(AttendSegment)
BASS_COMPILE_KERNEL(CountTiles)
BASS_COMPILE_KERNEL(AttendGrouped)
BASS_COMPILE_KERNEL(AttendTiles)
BASS_COMPILE_KERNEL(AttendValues)
BASS_COMPILE_KERNEL(PlanFused)
BASS_COMPILE_KERNEL(PlanPadded)
BASS_COMPILE_KERNEL(PaddedScores)
BASS_COMPILE_KERNEL(PaddedSoftmax)
BASS_COMPILE_KERNEL(PaddedValues)
