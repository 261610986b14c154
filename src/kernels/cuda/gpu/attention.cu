#include "kernels/cuda/attention/fused_attention.h"
#include "kernels/cuda/attention/padded_attention.h"
#include "kernels/cuda/gpu/gpu_launch.cuh"

BASS_COMPILE_KERNEL(AttendSegment)
BASS_COMPILE_KERNEL(CountTiles)
BASS_COMPILE_KERNEL(AttendGrouped)
BASS_COMPILE_KERNEL(AttendFused64)
BASS_COMPILE_KERNEL(AttendFused80)
BASS_COMPILE_KERNEL(AttendFused96)
BASS_COMPILE_KERNEL(AttendFused128)
BASS_COMPILE_KERNEL(AttendFusedAny)
BASS_COMPILE_KERNEL(AttendBytes64)
BASS_COMPILE_KERNEL(AttendBytes80)
BASS_COMPILE_KERNEL(AttendBytes96)
BASS_COMPILE_KERNEL(AttendBytes128)
BASS_COMPILE_KERNEL(AttendBytesAny)
BASS_COMPILE_KERNEL(PlanFused)
BASS_COMPILE_KERNEL(PlanPadded)
BASS_COMPILE_KERNEL(PaddedScores)
BASS_COMPILE_KERNEL(PaddedSoftmax)
BASS_COMPILE_KERNEL(PaddedValues)
