// Every kernel of kernel_list.h.
#pragma once

#include "kernels/cuda/attention/fused_attention.h"
#include "kernels/cuda/attention/padded_attention.h"
#include "kernels/cuda/experts/route_rows.h"
#include "kernels/cuda/matmul/product.h"
#include "kernels/cuda/matmul/skinny_product.h"
#include "kernels/cuda/matmul/tile_product.h"
#include "kernels/cuda/rows/activate_rows.h"
#include "kernels/cuda/rows/draft_input.h"
#include "kernels/cuda/rows/embed_rows.h"
#include "kernels/cuda/rows/norm_rows.h"
#include "kernels/cuda/rows/quantise_tokens.h"
#include "kernels/cuda/rows/rope_and_write_kv.h"
#include "kernels/cuda/sampling/sampling_kernels.h"
