// What marks a function that both compilers translate: nvcc for the device, g++ for the emulator.
#pragma once

#ifdef __CUDACC__
#define BASS_HD __host__ __device__ __forceinline__
#else
/// On functions and lambdas that kernels call. With g++ it is only `inline`.
#define BASS_HD inline
#endif
