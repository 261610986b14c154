// A GPU's thread as a kernel sees it, run by g++ (thread_context.h).
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/thread_context.h"
#include "tensor/dtype.h"

namespace bass::cuda {

/// What the threads of a running block share: their memory and their barriers.
class EmulatedBlock {
 public:
  virtual ~EmulatedBlock() = default;
  /// Waits for all threads of the block, or of the caller's warp.
  virtual void wait_block(int thread) = 0;
  virtual void wait_warp(int thread) = 0;

  static constexpr size_t kSlotBytes = 32;
  /// Where lanes lay what others of their warp read; two sets that take turns, so that one barrier an exchange is
  /// enough.
  [[nodiscard]] std::byte* slot(int thread, int turn) { return slots_[turn][thread]; }
  std::byte* shared_memory = nullptr;
  size_t shared_bytes = 0;

 private:
  alignas(64) std::byte slots_[2][kMaxBlockThreads][kSlotBytes];
};

class EmulatedContext {
 public:
  EmulatedContext(EmulatedBlock* state, Index3 block, Index3 grid, int thread, int n_threads)
      : state_(state), block_(block), grid_(grid), thread_(thread), n_threads_(n_threads) {}

  [[nodiscard]] Index3 block() const { return block_; }
  [[nodiscard]] Index3 grid() const { return grid_; }
  [[nodiscard]] int thread() const { return thread_; }
  [[nodiscard]] int n_threads() const { return n_threads_; }
  [[nodiscard]] int lane() const { return thread_ % kWarpLen; }
  [[nodiscard]] int warp() const { return thread_ / kWarpLen; }

  void begin_anew() {}

  void sync() { meeting().wait_block(thread_); }
  void sync_warp() { meeting().wait_warp(thread_); }

  template <class T>
  T shuffle(T x, int lane) {
    exchange(x);
    return read<T>(lane);
  }
  template <class T>
  T shuffle_xor(T x, int mask) {
    exchange(x);
    return read<T>(lane() ^ mask);
  }
  uint32_t ballot(bool condition) {
    exchange(condition);
    uint32_t bits = 0;
    for (int i = 0; i < kWarpLen; ++i) bits |= (read<bool>(i) ? 1u : 0u) << i;
    return bits;
  }

  template <class T>
  T* shared(int n) {
    T* place = reinterpret_cast<T*>(meeting().shared_memory + shared_used_);
    shared_used_ += SharedBytes().add<T>(n).bytes();
    BASS_CHECK(shared_used_ <= state_->shared_bytes);  // more than the launch asked for
    return place;
  }

  template <class T>
  [[nodiscard]] T* kept(T* p) const {
    return p;
  }

  template <class T>
  T atomic_add(T* p, T x) {
    return std::atomic_ref<T>(*p).fetch_add(x, std::memory_order_relaxed);
  }
  template <class T>
  T atomic_max(T* p, T x) {
    return replace_if(p, x, [](T current, T offered) { return current < offered; });
  }
  template <class T>
  T atomic_min(T* p, T x) {
    return replace_if(p, x, [](T current, T offered) { return offered < current; });
  }

  void raise(uint32_t* p) { std::atomic_ref<uint32_t>(*p).fetch_add(1, std::memory_order_release); }
  // Blocks run one after the other: what is not there would not come.
  void await_count(uint32_t* p, uint32_t n) {
    BASS_CHECK(static_cast<int32_t>(std::atomic_ref<uint32_t>(*p).load(std::memory_order_acquire) - n) >= 0);
  }

  [[nodiscard]] uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) const {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t picked = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t place = selector >> (4 * i) & 7u;
      picked |= static_cast<uint32_t>(bytes >> (8 * place) & 255u) << (8 * i);
    }
    return picked;
  }
  [[nodiscard]] int32_t dot4(int32_t a, int32_t b, int32_t c) const {
    int8_t x[4];
    int8_t y[4];
    std::memcpy(x, &a, 4);
    std::memcpy(y, &b, 4);
    return c + x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3];
  }

  [[nodiscard]] float from_f16(uint16_t bits) const { return f16_to_f32(bits); }
  [[nodiscard]] uint32_t pair_f16(float x, float y) const { return join(f32_to_f16(x), f32_to_f16(y)); }
  [[nodiscard]] uint32_t pair_bf16(float x, float y) const { return join(to_bf16(x), to_bf16(y)); }

  // Copied as late as can be. Until then there are NaNs, so that who reads too early is found, and whoever still needed
  // what was there.
  void copy_ahead(void* to, const void* from, bool wanted = true) {
    if (!wanted) return;
    BASS_CHECK(reinterpret_cast<uintptr_t>(to) % kCopyBytes == 0 &&
               reinterpret_cast<uintptr_t>(from) % kCopyBytes == 0);
    std::memset(to, 0xFF, kCopyBytes);
    copies_.push_back({to, from, n_copy_groups_});
  }
  template <class T>
  [[nodiscard]] T load_once(const T* from) const {
    static_assert(sizeof(T) == 16);
    BASS_CHECK(reinterpret_cast<uintptr_t>(from) % sizeof(T) == 0);
    return *from;
  }
  void commit_copies() { ++n_copy_groups_; }
  template <int kGroups>
  void wait_copies() {
    size_t n_done = 0;
    for (; n_done < copies_.size() && copies_[n_done].group < n_copy_groups_ - kGroups; ++n_done) {
      std::memcpy(copies_[n_done].to, copies_[n_done].from, kCopyBytes);
    }
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(n_done));
  }

  void multiply_s8(const TileS8& tile, int32_t (&c)[4]) {
    multiply(tile, c, [this](int32_t a, int32_t b, int32_t sum) { return dot4(a, b, sum); });
  }
  void multiply_s8_u8(const TileS8& tile, int32_t (&c)[4]) {
    multiply(tile, c, [](int32_t a, int32_t b, int32_t sum) {
      for (int i = 0; i < 32; i += 8) sum += static_cast<int8_t>(byte_of(a, i)) * byte_of(b, i);
      return sum;
    });
  }
  // Sums in one of the orders that tensor cores might take.
  void multiply_e4m3(const TileS8& tile, float (&c)[4]) {
    multiply(tile, c, [](int32_t a, int32_t b, float sum) {
      for (int i = 0; i < 32; i += 8) sum += from_e4m3(byte_of(a, i)) * from_e4m3(byte_of(b, i));
      return sum;
    });
  }
  void multiply_bf16(const TileS8& tile, float (&c)[4]) {
    multiply_pairs(tile, c, [](uint16_t bits) { return from_bf16(bits); });
  }
  void multiply_f16(const TileS8& tile, float (&c)[4]) {
    multiply_pairs(tile, c, [](uint16_t bits) { return f16_to_f32(bits); });
  }

  void wait_for_input() const {}  // kernels run one after the other

 private:
  EmulatedBlock& meeting() {
    BASS_CHECK(state_ != nullptr);  // the kernel says that its threads do not cooperate
    return *state_;
  }
  static uint32_t join(uint16_t low, uint16_t high) { return uint32_t{high} << 16 | low; }
  static uint8_t byte_of(int32_t word, int shift) { return static_cast<uint8_t>(static_cast<uint32_t>(word) >> shift); }
  // add(a, b, sum): the sum and the products of the numbers in both words.
  template <class Sum, class Add>
  void multiply(const TileS8& tile, Sum (&c)[4], Add add) {
    exchange(tile);
    const int group = lane() / 4;
    const int column = lane() % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const int row = group + i / 2 * 8;
      for (int part = 0; part < 8; ++part) {  // a word of k
        const auto a = read<TileS8>(row % 8 * 4 + part % 4);
        const auto b = read<TileS8>((column + i % 2) * 4 + part % 4);
        c[i] = add(a.a[part / 4 * 2 + row / 8], b.b[part / 4], c[i]);
      }
    }
  }
  // value(bits): of one of the two floats of a word.
  template <class Value>
  void multiply_pairs(const TileS8& tile, float (&c)[4], Value value) {
    multiply(tile, c, [value](int32_t a, int32_t b, float sum) {
      for (const int shift : {0, 16}) {
        const auto half = [shift](int32_t word) { return static_cast<uint16_t>(static_cast<uint32_t>(word) >> shift); };
        sum += value(half(a)) * value(half(b));
      }
      return sum;
    });
  }
  template <class T>
  void exchange(const T& x) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= EmulatedBlock::kSlotBytes);
    turn_ ^= 1;
    std::memcpy(meeting().slot(thread_, turn_), &x, sizeof(T));
    state_->wait_warp(thread_);
  }
  template <class T>
  T read(int lane) {
    T x;
    std::memcpy(&x, state_->slot(thread_ / kWarpLen * kWarpLen + lane % kWarpLen, turn_), sizeof(T));
    return x;
  }
  template <class T, class Replaces>
  T replace_if(T* p, T x, Replaces replaces) {
    std::atomic_ref<T> place(*p);
    T current = place.load(std::memory_order_relaxed);
    while (replaces(current, x) && !place.compare_exchange_weak(current, x, std::memory_order_relaxed)) {
    }
    return current;
  }

  struct Copy {
    void* to;
    const void* from;
    int group;
  };
  static constexpr size_t kCopyBytes = 16;
  std::vector<Copy> copies_;  // that nobody has waited for
  int n_copy_groups_ = 0;

  EmulatedBlock* state_;  // null: the threads do not cooperate
  Index3 block_;
  Index3 grid_;
  int thread_;
  int n_threads_;
  int turn_ = 0;
  size_t shared_used_ = 0;
};

}  // namespace bass::cuda
