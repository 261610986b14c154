#include "engine/device_choice.h"

#include <fmt/format.h>

#include <charconv>

namespace bass {
namespace {

constexpr std::string_view kCuda = "cuda";

/// N of "cuda:N", 0 of "cuda".
std::optional<int> gpu_index(std::string_view name) {
  if (name.substr(0, kCuda.size()) != kCuda) return std::nullopt;
  name.remove_prefix(kCuda.size());
  if (name.empty()) return 0;
  if (name.front() != ':' || name.size() < 2 || name.size() > 4) return std::nullopt;
  int idx = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), idx);
  if (error != std::errc() || end != name.data() + name.size() || idx < 0) return std::nullopt;
  return idx;
}

}  // namespace

Status check_device_name(std::string_view text) {
  if (text == "auto" || text == "cpu") return ok_status();
  if (!cuda::can_open_device()) {
    if (text.substr(0, kCuda.size()) == kCuda) return invalid_argument("this build has no CUDA; use --device cpu");
    return invalid_argument("must be auto or cpu");
  }
  if (gpu_index(text).has_value()) return ok_status();
  return invalid_argument("must be auto, cpu, cuda or cuda:N (a GPU's number, from 0 on)");
}

Result<OpenedDevice> open_named_device(std::string_view name) {
  OpenedDevice opened;
  opened.name = "cpu";
  if (name == "cpu" || (name == "auto" && !cuda::can_open_device())) return opened;
  const int idx = gpu_index(name).value_or(0);
  Result<std::unique_ptr<cuda::Device>> gpu = cuda::open_device(idx);
  if (gpu.ok()) {
    opened.gpu = std::move(gpu).value();
    opened.name = fmt::format("cuda:{}", idx);
  } else if (name == "auto") {
    opened.note = fmt::format("running on the CPU: {}", gpu.status().message());
  } else {
    return Status(gpu.status().code(), fmt::format("--device {}: {}", name, gpu.status().message()));
  }
  return opened;
}

}  // namespace bass
