# The GPU backend: nvcc for the .cu files of src/kernels/cuda/gpu, and the CUDA runtime, linked statically.
#
# CMAKE_CUDA_ARCHITECTURES: 90a unless given. docs/cuda.md says which GPUs the code was run on.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a)
endif()
if(NOT CMAKE_CUDA_COMPILER_LAUNCHER AND CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
elseif(NOT CMAKE_CUDA_COMPILER_LAUNCHER AND "$ENV{CMAKE_CXX_COMPILER_LAUNCHER}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER $ENV{CMAKE_CXX_COMPILER_LAUNCHER})
endif()
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)  # where NVIDIA's packages put it, without a PATH
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit REQUIRED)

# The arithmetic is stated operation by operation (src/kernels/cuda/thread_context.h): no contraction. Division, square
# root and subnormal numbers are IEEE's by default. -Xptxas -v: tools/gpu_gate.py reads registers and spills.
set(BASS_GPU_FLAGS -fmad=false --expt-relaxed-constexpr -Xptxas -v --threads 2 -diag-suppress 20012)

function(bass_gpu_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${BASS_GPU_FLAGS}>")
  target_link_libraries(${target} PUBLIC CUDA::cudart_static)
endfunction()
