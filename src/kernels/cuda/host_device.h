// What marks a function that both compilers translate: nvcc for the device, g++ for the emulator.
#pragma once

#ifdef __CUDACC__
#define BASS_HD __host__ __device__ __forceinline__
/// The same for functions that are too long to be copied to where they are called: ptxas takes a minute and more for
/// a kernel that has them all in it.
#define BASS_HD_CALL __host__ __device__ __noinline__ inline
/// In front of a loop over registers: arrays that it indexes must not become memory.
#define BASS_UNROLL _Pragma("unroll")
/// n: a constant; 1: the loop stays one.
#define BASS_UNROLL_BY(n) BASS_PRAGMA(unroll n)
#define BASS_PRAGMA(text) _Pragma(#text)
#else
/// On functions and lambdas that kernels call. With g++ it is only `inline`.
#define BASS_HD inline
#define BASS_HD_CALL inline
#define BASS_UNROLL
#define BASS_UNROLL_BY(n)
#endif
