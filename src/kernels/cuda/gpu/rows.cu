#include "kernels/cuda/gpu/gpu_launch.cuh"
#include "kernels/cuda/rows/activate_rows.h"
#include "kernels/cuda/rows/draft_input.h"
#include "kernels/cuda/rows/embed_rows.h"
#include "kernels/cuda/rows/norm_rows.h"
#include "kernels/cuda/rows/quantise_tokens.h"
#include "kernels/cuda/rows/rope_and_write_kv.h"

BASS_COMPILE_KERNEL(EmbedRows)
BASS_COMPILE_KERNEL(GatherRows)
BASS_COMPILE_KERNEL(NormRows)
BASS_COMPILE_KERNEL(RopeAndWriteKv)
BASS_COMPILE_KERNEL(ActivateRows)
BASS_COMPILE_KERNEL(CapRows)
BASS_COMPILE_KERNEL(TapRows)
BASS_COMPILE_KERNEL(FeatureRows)
BASS_COMPILE_KERNEL(JoinRows)
BASS_COMPILE_KERNEL(QuantiseTokens)
