// A thread of a real GPU as a kernel sees it (thread_context.h). Compiled by nvcc.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

extern __shared__ __align__(16) unsigned char gpu_shared_memory[];

class GpuContext {
 public:
  __device__ Index3 block() const {
    return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
  }
  __device__ Index3 grid() const {
    return {static_cast<int>(gridDim.x), static_cast<int>(gridDim.y), static_cast<int>(gridDim.z)};
  }
  __device__ int thread() const { return static_cast<int>(thread_); }
  __device__ int n_threads() const { return static_cast<int>(blockDim.x); }
  __device__ int lane() const { return static_cast<int>(thread_ % kWarpLen); }
  __device__ int warp() const { return static_cast<int>(thread_ / kWarpLen); }
  __device__ void begin_anew() { asm volatile("" : "+r"(thread_)); }

  __device__ void sync() const { __syncthreads(); }
  __device__ void sync_warp() const { __syncwarp(); }

  template <class T>
  __device__ T shuffle(T x, int lane) const {
    return __shfl_sync(kAll, x, lane);
  }
  template <class T>
  __device__ T shuffle_xor(T x, int mask) const {
    return __shfl_xor_sync(kAll, x, mask);
  }
  __device__ uint32_t ballot(bool condition) const { return __ballot_sync(kAll, condition); }

  template <class T>
  __device__ T* shared(int n) {
    T* place = reinterpret_cast<T*>(gpu_shared_memory + shared_used_);
    shared_used_ += (sizeof(T) * static_cast<size_t>(n) + 15) / 16 * 16;
    return place;
  }

  // The beginning of shared memory is a register's that is read again for each use; what a shuffle gives is not.
  template <class T>
  __device__ T* kept(T* p) const {
    return static_cast<T*>(
        __cvta_shared_to_generic(__shfl_sync(kAll, static_cast<unsigned>(__cvta_generic_to_shared(p)), 0)));
  }

  template <class T>
  __device__ T atomic_add(T* p, T x) const {
    return from_cuda<T>(atomicAdd(as_cuda(p), to_cuda(x)));
  }
  template <class T>
  __device__ T atomic_max(T* p, T x) const {
    return from_cuda<T>(atomicMax(as_cuda(p), to_cuda(x)));
  }
  template <class T>
  __device__ T atomic_min(T* p, T x) const {
    return from_cuda<T>(atomicMin(as_cuda(p), to_cuda(x)));
  }

  __device__ void raise(uint32_t* p) const {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" : : "l"(__cvta_generic_to_global(p)) : "memory");
  }
  __device__ void await_count(const uint32_t* p, uint32_t n) const {
    uint32_t count;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(__cvta_generic_to_global(p)) : "memory");
    } while (static_cast<int32_t>(count - n) < 0);
  }

  __device__ uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) const {
    return __byte_perm(a, b, selector);
  }
  __device__ int32_t dot4(int32_t a, int32_t b, int32_t c) const { return __dp4a(a, b, c); }

  __device__ float from_f16(uint16_t bits) const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }

  __device__ uint32_t pair_f16(float x, float y) const {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
    return pair;
  }
  __device__ uint32_t pair_bf16(float x, float y) const {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
    return pair;
  }

  // The condition is the instruction's: around it, it would make a branch, or addresses to be computed for each copy.
  __device__ void copy_ahead(void* to, const void* from, bool wanted = true) const {
    asm volatile(
        "{\n.reg .pred wanted;\nsetp.ne.b32 wanted, %2, 0;\n"
        "@wanted cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n}" ::"r"(
            static_cast<unsigned>(__cvta_generic_to_shared(to))),
        "l"(__cvta_generic_to_global(from)), "r"(static_cast<int>(wanted))
        : "memory");
  }
  // No cache policy for the second level: ptxas 13.0 lets copies with one read uniform registers that nothing has
  // written.
  template <class T>
  __device__ T load_once(const T* from) const {
    static_assert(sizeof(T) == 16 && alignof(T) == 16);
    uint4 words;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(__cvta_generic_to_global(from)));
    T value;
    memcpy(&value, &words, sizeof(value));
    return value;
  }
  __device__ void commit_copies() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kGroups>
  __device__ void wait_copies() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
  }

  __device__ void multiply_s8(const TileS8& tile, int32_t (&c)[4]) const {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(tile.a[0]), "r"(tile.a[1]), "r"(tile.a[2]), "r"(tile.a[3]), "r"(tile.b[0]), "r"(tile.b[1]));
  }
  __device__ void multiply_s8_u8(const TileS8& tile, int32_t (&c)[4]) const {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(tile.a[0]), "r"(tile.a[1]), "r"(tile.a[2]), "r"(tile.a[3]), "r"(tile.b[0]), "r"(tile.b[1]));
  }

  __device__ void multiply_bf16(const TileS8& tile, float (&c)[4]) const {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(tile.a[0]), "r"(tile.a[1]), "r"(tile.a[2]), "r"(tile.a[3]), "r"(tile.b[0]), "r"(tile.b[1]));
  }
  __device__ void multiply_f16(const TileS8& tile, float (&c)[4]) const {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(tile.a[0]), "r"(tile.a[1]), "r"(tile.a[2]), "r"(tile.a[3]), "r"(tile.b[0]), "r"(tile.b[1]));
  }
  __device__ void multiply_e4m3(const TileS8& tile, float (&c)[4]) const {
#if __CUDA_ARCH__ >= 890
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(tile.a[0]), "r"(tile.a[1]), "r"(tile.a[2]), "r"(tile.a[3]), "r"(tile.b[0]), "r"(tile.b[1]));
#else
    __trap();  // FP8 is refused at load
#endif
  }

  // From Hopper on a kernel's blocks may start while the one in front of it ends (programmatic dependent launch).
  __device__ void wait_for_input() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  }
  __device__ void let_next_start() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
  }

 private:
  static constexpr unsigned kAll = 0xFFFFFFFFu;

  // CUDA's atomics know `unsigned long long`, which is not uint64_t.
  __device__ static unsigned long long* as_cuda(uint64_t* p) { return reinterpret_cast<unsigned long long*>(p); }
  __device__ static unsigned long long to_cuda(uint64_t x) { return x; }
  template <class T>
  __device__ static T* as_cuda(T* p) {
    return p;
  }
  template <class T>
  __device__ static T to_cuda(T x) {
    return x;
  }
  template <class T, class U>
  __device__ static T from_cuda(U x) {
    return static_cast<T>(x);
  }

  unsigned thread_ = threadIdx.x;
  size_t shared_used_ = 0;
};

}  // namespace bass::cuda
