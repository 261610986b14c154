#include "kernels/cpu/kernels.h"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/read_ahead.h"

#ifdef BASS_X86_KERNELS
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace bass::cpu {
namespace {

constexpr int kMaxTables = 5;
constexpr char kForceVariable[] = "BASS_FORCE_ISA";

struct Candidate {
  const Kernels* table;
  bool is_available;
};

#ifdef BASS_X86_KERNELS

// __builtin_cpu_supports looks at what the operating system saves, too (XCR0), so that a positive answer for AVX-512
// means usable zmm registers. It has no name for AVX-VNNI in the compilers that we support.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

// The registers' state is large, so Linux wants to be asked before a process uses them (ARCH_REQ_XCOMP_PERM). The tiles
// must also multiply as they should: an emulator, or a hypervisor, may not.
bool has_amx() {
  constexpr unsigned kTiles = 1U << 24, kInt8 = 1U << 25, kOsXsave = 1U << 27;
  constexpr unsigned kTileState = 3U << 17;  // of XCR0
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsXsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTiles) == 0 || (edx & kInt8) == 0) return false;
  unsigned enabled = 0, enabled_high = 0;
  asm("xgetbv" : "=a"(enabled), "=d"(enabled_high) : "c"(0));
  if ((enabled & kTileState) != kTileState) return false;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 && tiles_work();
}

Kernels amx_table(const char* name, const AmxKernels& amx) {
  Kernels table = kAvx512VnniKernels;
  table.isa = Isa::kAvx512Amx;
  table.name = name;
  table.min_panel_rows = amx.min_panel_rows;
  table.quantise = amx.quantise;
  table.matmul = amx.matmul;
  table.keep_tiles = amx.keep_tiles;
  table.release_tiles = amx.release_tiles;
  return table;
}

const Kernels& amx_kernels() {
  static const Kernels kTable = [] {
    Kernels table = amx_table("avx512amx", kAmxKernels);
    table.peak_loops[static_cast<size_t>(OperationClass::kInt8Dot)] = kAmxKernels.tile_peak;
    return table;
  }();
  return kTable;
}

const Kernels* emulated_amx_table() {
  if (kEmulatedAmxKernels.matmul == nullptr) return nullptr;
  static const Kernels kTable = amx_table("avx512amx_emulated", kEmulatedAmxKernels);
  return &kTable;
}

/// Whether it has more than a name (kernels_left_out.cc).
bool is_built(const Kernels& table) { return table.matmul != nullptr; }

std::array<Candidate, kMaxTables> candidates() {
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool has_avx2 = has_f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512vnni");
  static const bool kHasTiles = has_avx2 && has_avx512 && has_amx();
  return {{{&kScalarKernels, true},
           {&kAvx2Kernels, is_built(kAvx2Kernels) && has_avx2},
           {&kAvxVnniKernels, is_built(kAvxVnniKernels) && has_avx2 && has_avx_vnni()},
           {&kAvx512VnniKernels, is_built(kAvx512VnniKernels) && has_avx2 && has_avx512},
           {&amx_kernels(), kHasTiles}}};
}

#else

std::array<Candidate, 1> candidates() { return {{{&kScalarKernels, true}}}; }
const Kernels* emulated_amx_table() { return nullptr; }

#endif

std::string available_names() {
  std::string names;
  for (const Candidate& candidate : candidates()) {
    if (!candidate.is_available) continue;
    if (!names.empty()) names += ", ";
    names += candidate.table->name;
  }
  return names;
}

}  // namespace

int available_kernels(const Kernels** tables, int max_tables) {
  int n = 0;
  for (const Candidate& candidate : candidates()) {
    if (candidate.is_available && n < max_tables) tables[n++] = candidate.table;
  }
  return n;
}

const Kernels* find_kernels(Isa isa) {
  for (const Candidate& candidate : candidates()) {
    if (candidate.table->isa == isa && candidate.is_available) return candidate.table;
  }
  return nullptr;
}

const Kernels* emulated_amx() { return find_kernels(Isa::kAvx512Vnni) == nullptr ? nullptr : emulated_amx_table(); }

Result<const Kernels*> select_kernels() {
  BASS_RETURN_IF_ERROR(check_read_ahead());
  const char* forced = std::getenv(kForceVariable);
  if (forced == nullptr || *forced == '\0') {
    const Kernels* tables[kMaxTables];
    return tables[available_kernels(tables, kMaxTables) - 1];
  }
  bool is_known = false;
  for (const Candidate& candidate : candidates()) {
    if (std::string_view(candidate.table->name) != forced) continue;
    if (candidate.is_available) return candidate.table;
    is_known = true;
  }
  return invalid_argument(std::string(kForceVariable) + "=" + forced +
                          (is_known ? ": this processor lacks it" : " is no instruction set that BASS knows") +
                          "; this processor has " + available_names() + " (unset the variable to use the best)");
}

}  // namespace bass::cpu
