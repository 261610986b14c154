// Kernels as ordinary C++: what a kernel is, and what it may ask of the thread that runs it.
//
// A kernel is a trivially copyable struct (its members are its arguments: device pointers, sizes, PODs):
//
//   struct AddKernel {
//     static constexpr const char* kName = "add";
//     static constexpr int kMaxThreads = 128;      // of a block: the bound that registers are allotted for
//     static constexpr bool kCooperates = false;   // true: its threads meet (sync, shuffles, shared memory)
//     static constexpr int kMinBlocks = 1;         // of a multiprocessor: bounds registers too. Need not be there
//     static constexpr bool kStartsEarly = false;  // true: it calls wait_for_input itself. Need not be there
//     const float* x;  // [n]
//     float* y;        // [n]
//     int n;
//     template <class Context>
//     BASS_HD void operator()(Context& context) const {
//       const int i = context.block().x * context.n_threads() + context.thread();
//       if (i < n) y[i] += x[i];
//     }
//   };
//
// and a line in kernel_list.h. nvcc compiles it for GpuContext (gpu/gpu_context.cuh), g++ for EmulatedContext
// (emulator/emulated_context.h): one source, tested without a GPU. Both contexts offer the same members:
//
//   block(), grid()            Index3
//   thread(), n_threads()      of the block; n_threads is a multiple of 32
//   lane(), warp()             thread() % 32, thread() / 32
//   begin_anew()               no place that was computed from thread() is kept in a register behind it: for a loop
//                              whose turns need all of them
//   sync()                     the block's barrier. Every thread of the block must come, none may have returned
//   sync_warp()                the warp's. For this and the functions below, all 32 lanes come
//   shuffle(x, lane), shuffle_xor(x, mask)      x: a number of 4 or 8 bytes
//   ballot(condition)          uint32_t, bit i: lane i's
//   shared<T>(n)               n elements of the block's shared memory, 16-byte aligned; the same calls in the same
//                              order in all threads; LaunchShape::shared_bytes (use SharedBytes) has the room. Contents
//                              are undefined at first
//   kept(p)                    p, of shared memory, the same in all lanes; held in a register where many places derive
//                              from it
//   atomic_add(p, x), atomic_max(p, x), atomic_min(p, x)    int32_t, uint32_t (add, max, min: uint64_t too); the old *p
//   raise(p)                   adds 1 to a uint32_t. Who awaits it sees all that this thread, and others in front of a
//                              barrier that it has met, have written before
//   await_count(p, n)          waits until others' raise has brought *p to n (modulo 2^32). They must be at work or
//                              done: blocks may be run one after the other
//   pick_bytes(a, b, selector) byte i of the result: byte (selector >> 4 i & 7) of the 8 bytes of a and, behind it, b
//   dot4(a, b, c)              c + the sum of the products of 4 int8 in a and 4 in b
//   multiply_s8(tile, c)       one m16n8k32 tile product of a warp on tensor cores (fragments: TileS8 below)
//   multiply_s8_u8(tile, c)    the same where the bytes of b are unsigned
//   multiply_e4m3(tile, c)     the first of FP8, sums in float32; from compute capability 8.9 on
//   multiply_bf16(tile, c)     m16n8k16 of bfloat16, sums in float32: in TileS8 two numbers take the place of four
//   multiply_f16(tile, c)      the same of f16
//   wait_for_input()           what the kernels in front of this one have written may be read, and what they read
//                              written. Called for a kernel before its operator(), unless kStartsEarly is true: such a
//                              kernel calls it itself, in all of its threads, and until then reads weights alone, and
//                              what was uploaded before its pass: rows, segments, pages, tables of rotations
//   from_f16(bits)             the number, exactly
//   pair_f16(x, y), pair_bf16(x, y)    uint32_t, both rounded to nearest even, x in the lower half
//   copy_ahead(to, from, wanted)   begins to copy 16 bytes (aligned to that) from global to shared memory, if wanted
//   load_once(p)               16 bytes of constant memory that this block does not read again: the first-level cache
//                              keeps other things
//   commit_copies()            makes the thread's copies begun since the last call, none or more, a group
//   wait_copies<n>()           waits until all but the last n groups have come. They are the thread's own: what others
//                              have copied is there after a barrier behind their wait
//
// Arithmetic: both compilers are told not to contract (g++ -ffp-contract=off, nvcc -fmad=false), so a + b * c rounds
// twice, fmaf(a, b, c) once, and division and sqrtf are IEEE's. Written so, a kernel gives the same bits everywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/host_device.h"

namespace bass::cuda {

/// What a kernel says of itself, or else the usual.
template <class Kernel>
constexpr bool starts_early() {
  if constexpr (requires { Kernel::kStartsEarly; }) return Kernel::kStartsEarly;
  return false;
}
template <class Kernel>
constexpr int min_blocks() {
  if constexpr (requires { Kernel::kMinBlocks; }) return Kernel::kMinBlocks;
  return 1;
}

inline constexpr int kWarpLen = 32;
inline constexpr int kMaxBlockThreads = 1024;

struct Index3 {
  int x = 0;
  int y = 0;
  int z = 0;
};

/// Blocks, threads of a block, and bytes of shared memory that a block asks for.
struct LaunchShape {
  Index3 grid{1, 1, 1};
  int n_threads = kWarpLen;
  size_t shared_bytes = 0;
};

/// Adds up what a kernel's shared<T>(n) calls need.
class SharedBytes {
 public:
  template <class T>
  SharedBytes& add(int n) {
    bytes_ += (sizeof(T) * static_cast<size_t>(n) + 15) / 16 * 16;
    return *this;
  }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

/// Tiles of a tensor-core product C [16, 8] += A [16, 32] B [32, 8] in int8 with int32 sums (mma.m16n8k32.s8). With
/// group = lane / 4 and t = lane % 4, a lane holds, four int8 in each int32, lowest k in the lowest byte:
///   a[0]: A[group][4 t ..],     a[1]: A[group + 8][4 t ..],  a[2]: A[group][16 + 4 t ..],  a[3]: A[group + 8][16 + 4 t
///   ..] b[0]: B[4 t ..][group],     b[1]: B[16 + 4 t ..][group] c[0], c[1]: C[group][2 t], [2 t + 1];   c[2], c[3]:
///   C[group + 8][2 t], [2 t + 1]
struct TileS8 {
  int32_t a[4];
  int32_t b[2];
};

BASS_HD constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace bass::cuda
