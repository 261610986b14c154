#include "kernels/cpu/read_ahead.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string>
#include <string_view>

namespace bass::cpu {
namespace {

constexpr char kVariable[] = "BASS_READ_AHEAD";
constexpr ReadAhead kStaged{"staged", {12288, 1024}, {12288, 1024}, true};
constexpr ReadAhead kFar{"far", {16384, 0}, {16384, 0}, false};
constexpr ReadAhead kMixed{"mixed", {12288, 1024}, {8192, 0}, true};
constexpr const ReadAhead* kAll[] = {&kReadAheadOfFirstLevel, &kMixed, &kStaged, &kFar};

const ReadAhead* find(std::string_view name) {
  for (const ReadAhead* one : kAll) {
    if (one->name == name) return one;
  }
  return nullptr;
}

enum class Maker { kAmd, kIntel, kOther };

Maker processor_maker() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd")) return Maker::kAmd;
  if (__builtin_cpu_is("intel")) return Maker::kIntel;
#endif
  return Maker::kOther;
}

// As the makers count them: the base family, and where that is 15 the extended one with it.
int processor_family() {
#if defined(__x86_64__)
  unsigned signature = 0;
  unsigned other[3];
  if (__get_cpuid(1, &signature, &other[0], &other[1], &other[2]) == 0) return 0;
  const unsigned base = signature >> 8 & 0xF;
  return static_cast<int>(base == 0xF ? base + (signature >> 20 & 0xFF) : base);
#else
  return 0;
#endif
}

const ReadAhead& of_processor() {
  constexpr int kFamilyOfZen5 = 26;
  switch (processor_maker()) {
    case Maker::kAmd:
      return processor_family() >= kFamilyOfZen5 ? kFar : kStaged;
    case Maker::kIntel:
      return kMixed;
    case Maker::kOther:
      break;
  }
  return kReadAheadOfFirstLevel;
}

const ReadAhead& choose() {
  const char* forced = std::getenv(kVariable);
  const ReadAhead* named = forced == nullptr ? nullptr : find(forced);
  return named != nullptr ? *named : of_processor();
}

}  // namespace

const ReadAhead& read_ahead() {
  static const ReadAhead& chosen = choose();
  return chosen;
}

bool masks_are_free() {
  static const bool kAreFree = processor_maker() == Maker::kAmd;
  return kAreFree;
}

Status check_read_ahead() {
  const char* forced = std::getenv(kVariable);
  if (forced == nullptr || *forced == '\0' || find(forced) != nullptr) return ok_status();
  return invalid_argument(std::string(kVariable) + "=" + forced +
                          ": it may be l1, mixed, staged or far (unset, it is chosen for this processor)");
}

}  // namespace bass::cpu
