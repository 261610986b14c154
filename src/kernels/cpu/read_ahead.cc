#include "kernels/cpu/read_ahead.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace bass::cpu {
namespace {

constexpr char kVariable[] = "BASS_READ_AHEAD";
constexpr ReadAhead kStaged{"staged", 12288, 1024};
constexpr const ReadAhead* kAll[] = {&kReadAheadOfFirstLevel, &kStaged};

const ReadAhead* find(std::string_view name) {
  for (const ReadAhead* one : kAll) {
    if (one->name == name) return one;
  }
  return nullptr;
}

const ReadAhead& of_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd")) return kStaged;
#endif
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

Status check_read_ahead() {
  const char* forced = std::getenv(kVariable);
  if (forced == nullptr || *forced == '\0' || find(forced) != nullptr) return ok_status();
  return invalid_argument(std::string(kVariable) + "=" + forced +
                          ": it may be l1 or staged (unset, it is chosen for this processor)");
}

}  // namespace bass::cpu
