#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <numeric>
#include <optional>
#include <string>

#include "base/aligned_buffer.h"
#include "base/cache_folder.h"
#include "base/control_group.h"
#include "base/mapped_file.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/populate.h"
#include "base/thread_team.h"
#include "support/can_populate.h"
#include "support/growth.h"
#include "support/temp_folder.h"

namespace bass {
namespace {

// The known answers that come with the paper's reference implementation (Random123, kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0), (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, ~uint64_t{0}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, uint64_t{0x299f31d0} << 32 | 0xa4093822),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfAStreamCounts) {
  const RandomStream stream{1, 2, 3, RandomPurpose::kDraft, 4};
  RandomStream others[5] = {stream, stream, stream, stream, stream};
  others[0].seed = 9;
  others[1].position = 9;
  others[2].round_start = 9;
  others[3].purpose = RandomPurpose::kAccept;
  others[4].sample_idx = 9;
  for (const RandomStream& other : others) EXPECT_NE(stream.bits(77), other.bits(77));
  EXPECT_NE(stream.bits(76), stream.bits(77));
  EXPECT_GT(uniform_open(0), 0.0);
  EXPECT_LT(uniform_open(~0u), 1.0);
}

TEST(ThreadTeam, BarriersSeparatePhasesWithFewerAndMoreThreadsThanCores) {
  for (const int n_threads : {1, 2, 3, 9}) {
    ThreadTeam team(n_threads);
    constexpr int kPhases = 200;
    std::vector<int> counts(kPhases, 0);
    std::atomic<int> n_wrong{0};
    for (int run = 0; run < 3; ++run) {
      std::fill(counts.begin(), counts.end(), 0);
      team.run([&](const TeamContext& context) {
        for (int phase = 0; phase < kPhases; ++phase) {
          std::atomic_ref(counts[static_cast<size_t>(phase)]).fetch_add(1, std::memory_order_relaxed);
          context.barrier();
          if (counts[static_cast<size_t>(phase)] != n_threads) ++n_wrong;  // written by others, plainly read
        }
      });
    }
    EXPECT_EQ(n_wrong, 0) << n_threads;
  }
}

TEST(ThreadTeam, SharingOutGivesEachItemToOneThread) {
  for (const int n_threads : {1, 2, 3, 8}) {
    ThreadTeam team(n_threads);
    for (const int n_items : {0, 1, 2, 3, 7, 8, 9, 31, 48, 60, 1000}) {
      std::vector<std::atomic<int>> times(static_cast<size_t>(n_items));
      WorkCounter counter;
      for (int round = 1; round <= 2; ++round) {
        counter.reset();
        team.run([&](const TeamContext& context) {
          context.share_out(n_items, &counter, [&](WorkRange range) {
            EXPECT_LE(range.begin, range.end);
            for (int i = range.begin; i < range.end; ++i) times[static_cast<size_t>(i)].fetch_add(1);
          });
        });
        for (const auto& n : times) ASSERT_EQ(n.load(), round) << n_items << " items, " << n_threads << " threads";
      }
    }
  }
}

TEST(WorkCounter, KnowsWhetherAnythingIsLeft) {
  WorkCounter counter;
  EXPECT_FALSE(counter.has_any_of(0));
  EXPECT_TRUE(counter.has_any_of(1));
  EXPECT_EQ(counter.take(), 0);
  EXPECT_FALSE(counter.has_any_of(1));
  EXPECT_TRUE(counter.has_any_of(2));
}

// All but three quarters of a share that nobody has begun goes to the threads that have time.
TEST(ThreadTeam, SharingOutTakesWorkFromAThreadThatIsHeldUp) {
  constexpr int kItems = 64;
  ThreadTeam team(2);
  WorkCounter counter;
  std::atomic<int> n_of_first{0};
  std::atomic<int> n_of_second{0};
  team.run([&](const TeamContext& context) {
    if (context.thread_idx() == 0) {
      while (n_of_second.load() < kItems / 2 + kItems / 8) std::this_thread::yield();  // it does part of this share too
    }
    context.share_out(kItems, &counter, [&](WorkRange range) {
      (context.thread_idx() == 0 ? n_of_first : n_of_second).fetch_add(range.end - range.begin);
    });
  });
  EXPECT_EQ(n_of_second.load(), kItems / 2 + kItems / 8);
  EXPECT_EQ(n_of_first.load(), kItems / 2 - kItems / 8);
}

TEST(ThreadTeam, ThrowsWhatAThreadHasThrownAndWorksOn) {
  for (const int n_threads : {1, 3}) {
    ThreadTeam team(n_threads);
    for (int thrower = 0; thrower < n_threads; ++thrower) {
      std::atomic<int> n_others{0};
      const auto run = [&] {
        team.run([&](const TeamContext& context) {
          if (context.thread_idx() == thrower) throw std::bad_alloc();
          ++n_others;
        });
      };
      EXPECT_THROW(run(), std::bad_alloc);
      EXPECT_EQ(n_others, n_threads - 1) << "it waits for all of them";
    }
    std::atomic<int> n_run{0};
    team.run([&](const TeamContext&) { ++n_run; });
    EXPECT_EQ(n_run, n_threads);
  }
}

TEST(ThreadTeam, SharesCoverAllItemsOnce) {
  for (const int n_items : {0, 1, 5, 64, 1000}) {
    std::vector<int> counts(static_cast<size_t>(n_items), 0);
    SpinBarrier barrier(7);
    for (int thread = 0; thread < 7; ++thread) {
      const WorkRange mine = TeamContext(thread, 7, &barrier).share(n_items);
      for (int i = mine.begin; i < mine.end; ++i) ++counts[static_cast<size_t>(i)];
    }
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), n_items);
  }
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  for (const char* path : {"/nonexistent/model.gguf", "/tmp", "/dev/zero"}) {
    const Result<MappedFile> file = MappedFile::open(path);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidFile);
    EXPECT_NE(file.status().message().find(path), std::string::npos);
  }
  const testing::TempFolder folder;
  const std::string empty = folder / "empty";
  std::ofstream(empty).close();
  EXPECT_FALSE(MappedFile::open(empty).ok());
}

TEST(MappedFile, BytesThatGoAwayAreZerosAndAnError) {
  const testing::TempFolder folder;
  const std::string path = folder / "cut";
  std::ofstream(path) << std::string(1 << 20, 'x');
  const MappedFile file = MappedFile::open(path).value();
  const MappedFile other = MappedFile::open(path).value();
  const volatile auto* bytes = reinterpret_cast<const volatile char*>(file.bytes().data());
  EXPECT_EQ(bytes[0], 'x');
  EXPECT_TRUE(file.check_intact().ok());
  std::filesystem::resize_file(path, 8192);
  EXPECT_EQ(bytes[8191], 'x');
  EXPECT_TRUE(file.check_intact().ok()) << "what is there still can be read";
  ThreadTeam team(4);
  std::atomic<int> n_read{0};
  team.run([&](const TeamContext& context) {
    const WorkRange mine = context.share(1 << 20);
    for (int i = mine.begin; i < mine.end; ++i) n_read += i < 8192 ? bytes[i] == 'x' : bytes[i] == 0;
  });
  EXPECT_EQ(n_read, 1 << 20);
  EXPECT_EQ(file.check_intact().code(), StatusCode::kInvalidFile);
  EXPECT_NE(file.check_intact().message().find(path), std::string::npos);
  EXPECT_TRUE(other.check_intact().ok()) << "its pages were not read";
}

TEST(MappedFileDeathTest, OtherBusErrorsEndTheProcessAsBefore) {
  const testing::TempFolder folder;
  const std::string path = folder / "file";
  std::ofstream(path) << 'x';
  // A sanitizer has a handler of its own. Ours is not in place yet: death tests run first.
  std::signal(SIGBUS, SIG_DFL);
  const MappedFile file = MappedFile::open(path).value();
  EXPECT_EXIT(::raise(SIGBUS), ::testing::KilledBySignal(SIGBUS), "");
}

TEST(Memory, SomeIsAvailableAndNotMoreThanThereIs) {
  EXPECT_GT(available_memory_bytes(), int64_t{1} << 20);
  EXPECT_LT(available_memory_bytes(), int64_t{1} << 50);
}

class ControlGroup : public ::testing::Test {
 protected:
  void write(const char* name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  [[nodiscard]] std::optional<int64_t> available_bytes() const { return group_available_bytes(folder_.path()); }
  [[nodiscard]] std::optional<double> processors() const { return group_processors(folder_.path()); }

  const testing::TempFolder folder_;
};

TEST_F(ControlGroup, WithoutLimitsHasNone) {
  EXPECT_EQ(available_bytes(), std::nullopt);
  EXPECT_EQ(processors(), std::nullopt);
  write("memory.max", "max\n");
  write("memory.current", "1000\n");
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(available_bytes(), std::nullopt);
  EXPECT_EQ(processors(), std::nullopt);
}

// A container that has just read a model's file has used its memory up for the cache of that file.
TEST_F(ControlGroup, LeavesWhatTheFileCacheWouldGiveUp) {
  write("memory.max", "10000\n");
  write("memory.current", "9000\n");
  EXPECT_EQ(available_bytes(), 1000);
  write("memory.stat", "anon 3000\nfile 6000\ninactive_anon 3000\nactive_file 1500\ninactive_file 4000\nslab 500\n");
  EXPECT_EQ(available_bytes(), 6500);
  write("memory.current", "17000\n");
  EXPECT_EQ(available_bytes(), 0) << "never below nothing";
}

TEST_F(ControlGroup, SaysHowManyProcessorsItsTimeIsWorth) {
  write("cpu.max", "150000 100000\n");
  EXPECT_EQ(processors(), 1.5);
  write("cpu.max", "0 0\n");
  EXPECT_EQ(processors(), std::nullopt);
}

TEST(ThreadTeam, IsNotLargerThanTheAffinityMask) {
  const int n_all = available_threads();
  ASSERT_GE(n_all, 1);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(available_threads(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(available_threads(), n_all);
}

TEST(Populate, FindsThePagesOfAPartAndLeavesWhatTheyHold) {
  if (!testing::can_populate()) GTEST_SKIP() << "this system finds memory at its first touch only";
  constexpr size_t kMib = size_t{1} << 20;
  const AlignedBuffer buffer(24 * kMib);  // large enough for huge pages, which may be 2 MiB
  const std::span<std::byte> memory(buffer.data(), buffer.size_bytes());
  const std::span<std::byte> part = memory.subspan(9 * kMib + 100, 7 * kMib - 200);
  part[kMib] = std::byte{7};
  EXPECT_EQ(absent_bytes(memory.subspan(13 * kMib)), 11 * kMib);
  EXPECT_GT(absent_bytes(part), 4 * kMib);
  ASSERT_TRUE(populate(part, 3).ok());
  EXPECT_EQ(absent_bytes(part), 0u);
  EXPECT_EQ(absent_bytes(memory.first(6 * kMib)), 6 * kMib) << "of others none";
  EXPECT_EQ(absent_bytes(memory.last(6 * kMib)), 6 * kMib);
  EXPECT_EQ(part[kMib], std::byte{7});
  EXPECT_EQ(part[0], std::byte{0});
}

TEST(Populate, MemoryThatIsNotThereIsAnError) {
  if (!testing::can_populate()) GTEST_SKIP() << "this system finds memory at its first touch only";
  constexpr size_t kMib = size_t{1} << 20;
  auto* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, 6 * kMib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::munmap(memory + 3 * kMib, 4096), 0);
  EXPECT_EQ(populate({memory, 6 * kMib}, 1).code(), StatusCode::kResourceExhausted);
  ::munmap(memory, 6 * kMib);
}

// What tests of others' input compare with.
TEST(Growth, TellsSquaresFromProportions) {
  const auto count_to = [](int64_t n) {
    for (volatile int64_t i = 0; i < n;) i = i + 1;
  };
  EXPECT_LT(testing::growth(1 << 18, count_to), testing::kMostGrowth);
  EXPECT_GT(testing::growth(1 << 9, [&](int64_t n) { count_to(n * n); }), testing::kMostGrowth);
}

TEST(CacheFolder, FollowsTheEnvironment) {
  ::setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(cache_folder(), "/somewhere/bass");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_TRUE(cache_folder().ends_with("/.cache/bass"));
}

}  // namespace
}  // namespace bass
