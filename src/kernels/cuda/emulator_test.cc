// The emulator keeps what a GPU promises, and finds what a GPU would not forgive.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/cuda/emulator/emulate.h"
#include "kernels/cuda/emulator/emulated_device.h"
#include "kernels/cuda/rows/activate_rows.h"

namespace bass::cuda {
namespace {

/// Every thread tells every collective operation's result.
struct Collectives {
  static constexpr const char* kName = "collectives";
  static constexpr int kMaxThreads = 96;
  static constexpr bool kCooperates = true;
  int* neighbours;  // [n_threads]
  int* broadcasts;  // [n_threads]
  uint32_t* odd;    // [n_threads]
  int* sums;        // [n_threads] of the block's thread indices, by shared memory
  int* total;       // atomically

  template <class Context>
  void operator()(Context& context) const {
    const int t = context.thread();
    neighbours[t] = context.shuffle_xor(t, 1);
    broadcasts[t] = context.shuffle(t, 5);
    odd[t] = context.ballot(t % 2 == 1);
    int* values = context.template shared<int>(context.n_threads());
    values[t] = t;
    context.sync();
    int sum = 0;
    for (int i = 0; i < context.n_threads(); ++i) sum += values[i];
    sums[t] = sum;
    context.atomic_add(total, t);
    context.atomic_max(total + 1, t);
  }
};

struct NoBarrier {
  static constexpr const char* kName = "no_barrier";
  static constexpr int kMaxThreads = 64;
  static constexpr bool kCooperates = true;
  int* out;  // [n_threads]
  template <class Context>
  void operator()(Context& context) const {
    int* values = context.template shared<int>(context.n_threads());
    values[context.thread()] = context.thread();
    out[context.thread()] = values[(context.thread() + 1) % context.n_threads()];
  }
};

struct SkipsBarrier {
  static constexpr const char* kName = "skips_barrier";
  static constexpr int kMaxThreads = 64;
  static constexpr bool kCooperates = true;
  template <class Context>
  void operator()(Context& context) const {
    if (context.thread() != 3) context.sync();
  }
};

struct TileProduct {
  static constexpr const char* kName = "tile_product";
  static constexpr int kMaxThreads = 32;
  static constexpr bool kCooperates = true;
  const int8_t* a;   // [16, 32]
  const int8_t* b;   // [8, 32], k fastest
  int32_t* c;        // [16, 8]
  bool is_unsigned;  // b
  template <class Context>
  void operator()(Context& context) const {
    const int group = context.lane() / 4;
    const int t = context.lane() % 4;
    const auto word = [](const int8_t* p) {
      int32_t x;
      std::memcpy(&x, p, 4);
      return x;
    };
    TileS8 tile;
    for (int i = 0; i < 4; ++i) tile.a[i] = word(a + (group + i % 2 * 8) * 32 + i / 2 * 16 + 4 * t);
    for (int i = 0; i < 2; ++i) tile.b[i] = word(b + group * 32 + i * 16 + 4 * t);
    int32_t sums[4] = {};
    if (is_unsigned) {
      context.multiply_s8_u8(tile, sums);
    } else {
      context.multiply_s8(tile, sums);
    }
    for (int i = 0; i < 4; ++i) c[(group + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
  }
};

/// Two groups of copies, of which the first is waited for, or none.
struct CopiesAhead {
  static constexpr const char* kName = "copies_ahead";
  static constexpr int kMaxThreads = 64;
  static constexpr bool kCooperates = true;
  const int32_t* from;  // [2, n_threads, 4]
  int32_t* out;         // [2, n_threads, 4]
  bool waits;
  template <class Context>
  void operator()(Context& context) const {
    const int n = 4 * context.n_threads();
    int32_t* values = context.template shared<int32_t>(2 * n);
    for (int group = 0; group < 2; ++group) {
      const int place = group * n + 4 * context.thread();
      context.copy_ahead(values + place, from + place);
      context.commit_copies();
    }
    if (waits) context.template wait_copies<1>();
    context.sync();
    for (int i = context.thread(); i < 2 * n; i += context.n_threads()) out[i] = values[i];
  }
};

std::vector<EmulatorOptions> all_options() {
  std::vector<EmulatorOptions> all(3);
#if !defined(__SANITIZE_THREAD__)
  all[1].order = EmulatorOrder::kDescending;
#endif
  all[2].mode = EmulatorMode::kThreads;
  return all;
}

template <class Kernel>
void run(const Kernel& kernel, const LaunchShape& shape, const EmulatorOptions& options) {
  emulate(emulated_kernel<Kernel>(), &kernel, shape, options);
}

TEST(Emulator, ThreadsMeet) {
  for (const EmulatorOptions& options : all_options()) {
    constexpr int kThreads = 96;
    std::vector<int> neighbours(kThreads), broadcasts(kThreads), sums(kThreads), total(2);
    std::vector<uint32_t> odd(kThreads);
    const Collectives kernel{neighbours.data(), broadcasts.data(), odd.data(), sums.data(), total.data()};
    run(kernel, {{3, 2, 1}, kThreads, SharedBytes().add<int>(kThreads).bytes()}, options);
    for (int t = 0; t < kThreads; ++t) {
      const auto i = static_cast<size_t>(t);
      EXPECT_EQ(neighbours[i], t ^ 1);
      EXPECT_EQ(broadcasts[i], t / 32 * 32 + 5);
      EXPECT_EQ(odd[i], 0xAAAAAAAAu);
      EXPECT_EQ(sums[i], kThreads * (kThreads - 1) / 2);
    }
    EXPECT_EQ(total[0], 6 * kThreads * (kThreads - 1) / 2);
    EXPECT_EQ(total[1], kThreads - 1);
  }
}

TEST(Emulator, AMissingBarrierShows) {
  int n_wrong = 0;
  for (const EmulatorOrder order : {EmulatorOrder::kAscending, EmulatorOrder::kDescending}) {
    EmulatorOptions options;
    options.mode = EmulatorMode::kFibers;
    options.order = order;
    std::vector<int> out(64);
    run(NoBarrier{out.data()}, {{1, 1, 1}, 64, SharedBytes().add<int>(64).bytes()}, options);
    for (int t = 0; t < 64; ++t) n_wrong += out[static_cast<size_t>(t)] != (t + 1) % 64 ? 1 : 0;
  }
  EXPECT_GT(n_wrong, 60);
}

TEST(EmulatorDeathTest, ABarrierThatAThreadNeverReachesEndsTheProcess) {
  EmulatorOptions options;
  options.mode = EmulatorMode::kFibers;
  EXPECT_DEATH(run(SkipsBarrier{}, {{1, 1, 1}, 64, 0}, options), "n_idle_turns_");
}

TEST(Emulator, CopiesThatAreNotWaitedForAreNotThere) {
  constexpr int kHalf = 4 * 64;
  alignas(16) int32_t from[2 * kHalf];
  std::iota(std::begin(from), std::end(from), 1);
  for (const EmulatorOptions& options : all_options()) {
    for (const bool waits : {true, false}) {
      std::vector<int32_t> out(2 * kHalf);
      run(CopiesAhead{from, out.data(), waits}, {{1, 1, 1}, 64, SharedBytes().add<int32_t>(2 * kHalf).bytes()},
          options);
      for (int i = 0; i < 2 * kHalf; ++i)
        EXPECT_EQ(out[static_cast<size_t>(i)], waits && i < kHalf ? from[i] : -1) << i;
    }
  }
}

/// Blocks that wait for what others raise.
struct Awaits {
  static constexpr const char* kName = "awaits";
  static constexpr int kMaxThreads = 32;
  static constexpr bool kCooperates = true;
  uint32_t* counter;
  uint32_t n;
  template <class Context>
  void operator()(Context& context) const {
    if (context.thread() != 0) return;
    context.raise(counter);
    context.await_count(counter, n);
  }
};

TEST(EmulatorDeathTest, WhoAwaitsWhatDoesNotComeEndsTheProcess) {
  EmulatorOptions options;
  options.mode = EmulatorMode::kFibers;
  uint32_t counter = 0xFFFFFFFFu;  // it counts modulo 2^32
  run(Awaits{&counter, 0}, {{3, 1, 1}, 32, 0}, options);
  EXPECT_EQ(counter, 2u);
  EXPECT_DEATH(run(Awaits{&counter, 4}, {{1, 1, 1}, 32, 0}, options), "await|load");
}

TEST(Emulator, TileProductsHaveTheFragmentsOfTheTensorCores) {
  std::vector<int8_t> a(16 * 32), b(8 * 32);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(i * 37 % 255 - 127);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int8_t>(i * 91 % 255 - 127);
  for (const EmulatorOptions& options : all_options()) {
    for (const bool is_unsigned : {false, true}) {
      std::vector<int32_t> c(16 * 8);
      run(TileProduct{a.data(), b.data(), c.data(), is_unsigned}, {}, options);
      for (size_t i = 0; i < c.size(); ++i) {
        int32_t sum = 0;
        for (size_t k = 0; k < 32; ++k) {
          const int8_t x = b[i % 8 * 32 + k];
          sum += a[i / 8 * 32 + k] * (is_unsigned ? static_cast<uint8_t>(x) : x);
        }
        EXPECT_EQ(c[i], sum);
      }
    }
  }
}

TEST(EmulatedDevice, CopiesAndKernelsAreDoneInOrderAndLate) {
  const auto device = open_emulated_device();
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  std::vector<float> results(values.size(), -1.0f);
  {
    DeviceBuffer x(device.get(), values.size() * sizeof(float));
    ASSERT_TRUE(x.ok());
    device->upload(x.data(), values.data(), x.n_bytes());
    const CapRows kernel{x.as<float>(), 0, 1, static_cast<int32_t>(values.size()), 300.0f};
    launch(*device, kernel, kernel.shape());
    device->download(results.data(), x.data(), x.n_bytes());
    EXPECT_EQ(results[1], -1.0f);
    ASSERT_TRUE(device->synchronize().ok());
  }
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(results[i], soft_cap(values[i], 300.0f));
}

TEST(EmulatedDevice, MemoryHasAnEndAndComesBack) {
  EmulatedDeviceOptions options;
  options.total_bytes = 1 << 20;
  const auto device = open_emulated_device(options);
  {
    const DeviceBuffer large(device.get(), 800 << 10);
    EXPECT_TRUE(large.ok());
    EXPECT_FALSE(DeviceBuffer(device.get(), 800 << 10).ok());
    EXPECT_EQ(device->free_bytes(), size_t{224} << 10);
  }
  EXPECT_EQ(device->free_bytes(), size_t{1} << 20);
}

TEST(EmulatedDeviceDeathTest, AGraphHoldsNothingOfTheHost) {
  const auto device = open_emulated_device();
  const DeviceBuffer memory(device.get(), 4096);
  int value = 1;
  device->begin_graph();
  EXPECT_DEATH(device->upload(memory.data(), &value, sizeof(value)), "is_recording");
  EXPECT_DEATH(static_cast<void>(device->synchronize().ok()), "is_recording");
  device->end_graph();
}

TEST(EmulatedDeviceDeathTest, TheHostCannotTouchTheDevicesMemory) {
  const auto device = open_emulated_device();
  const DeviceBuffer memory(device.get(), 4096);
  EXPECT_DEATH(memory.as<int>()[0] = 1, "");
}

}  // namespace
}  // namespace bass::cuda
