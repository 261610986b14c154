// Functions that a GPU runs too. The same source is compiled by nvcc and, for the CPU and for tests, by any C++ compiler.
#pragma once

#ifdef __CUDACC__
#define BASS_HD __host__ __device__
#else
#define BASS_HD
#endif
