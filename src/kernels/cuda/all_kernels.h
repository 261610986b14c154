// Every kernel of kernel_list.h.
#pragma once

#include "kernels/cuda/rows/scale_rows.h"
