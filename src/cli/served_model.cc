#include "cli/served_model.h"

#include <fmt/format.h>

#include <filesystem>

namespace bass {
namespace {

constexpr float kServedTemperature = 1;

}  // namespace

void add_served_options(CLI::App* app, TableArguments* arguments) {
  arguments->add(
      app, {"model",        "draft",        "quantize",           "max_tokens",       "temperature",       "top_p",
            "top_k",        "min_p",        "repetition_penalty", "presence_penalty", "frequency_penalty", "drafter",
            "draft_length", "verify",       "thinking_budget",    "max_batch",        "threads",           "context",
            "kv_memory",    "prefix_cache", "max_step_tokens",    "attention",        "activations",       "kv_type",
            "device"});
  arguments->say_default("max_tokens", fmt::format("{}", kAnswerTokens));
  arguments->say_default("temperature", fmt::format("{}", kServedTemperature));
}

void set_served_defaults(GenerateOptions* options) {
  options->request.max_tokens = kAnswerTokens;
  options->request.sampling.temperature = kServedTemperature;
}

std::string served_name(const std::string& model) {
  if (model.ends_with(".gguf")) return std::filesystem::path(model).stem().string();
  std::error_code error;
  if (!std::filesystem::exists(model, error)) return model;
  const std::filesystem::path path = std::filesystem::absolute(model).lexically_normal();
  const std::filesystem::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return name.empty() ? model : name.string();
}

}  // namespace bass
