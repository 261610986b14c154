#include "engine/validation.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/check.h"
#include "engine/device_choice.h"
#include "engine/tools.h"
#include "tensor/quantise.h"
#include "text/chat_template.h"
#include "text/stop_strings.h"
#include "text/utf8.h"

namespace bass {
namespace {

Status require(bool holds, std::string_view name, double value, std::string_view range) {
  if (holds) return ok_status();
  return invalid_argument(fmt::format("{} is {}; it must be {}", name, value, range));
}

// A library's caller may have cast any number to an enumeration.
template <class Kind>
Status require_known(Kind kind, Kind last, std::string_view name) {
  const auto number = static_cast<int>(kind);
  return require(number >= 0 && number <= static_cast<int>(last), name, number, "one of its enumeration");
}

Status validate_tools(const Request& request) {
  if (!request.prompt_tokens.empty() || (request.messages.empty() && !request.chat))
    return invalid_argument("tools: belong to a chat; ask with messages, or with chat, or leave them out");
  const Status status = read_tools(*request.tools).status();
  return status.ok() ? status : Status(status.code(), fmt::format("tools: {}", status.message()));
}

}  // namespace

Status validate_options(const EngineOptions& options) {
  if (options.model_path.empty()) return invalid_argument("model_path is empty; it names the model's file");
  BASS_RETURN_IF_ERROR(require_known(options.attention, AttentionKind::kSplitGrouped, "attention"));
  BASS_RETURN_IF_ERROR(require_known(options.activations, ActivationKind::kFp8, "activations"));
  BASS_RETURN_IF_ERROR(require_known(options.kv, KvKind::kInt8, "kv"));
  BASS_RETURN_IF_ERROR(
      require(options.max_batch >= 1 && options.max_batch <= 4096, "max_batch", options.max_batch, "1 to 4096"));
  BASS_RETURN_IF_ERROR(require(options.n_threads >= 0 && options.n_threads <= 1024, "threads", options.n_threads,
                               "1 to 1024, or 0 for all"));
  BASS_RETURN_IF_ERROR(require(!options.context_len || *options.context_len >= 1, "context",
                               options.context_len.value_or(0), "at least 1"));
  const int64_t kv_memory_mib = options.kv_memory_mib.value_or(1);
  BASS_RETURN_IF_ERROR(require(kv_memory_mib >= 1 && kv_memory_mib <= kMaxKvMib, "kv_memory",
                               static_cast<double>(kv_memory_mib), "1 to 1e9 (MiB)"));
  const int64_t prefix_cache_mib = options.prefix_cache_mib.value_or(0);
  BASS_RETURN_IF_ERROR(require(prefix_cache_mib >= 0 && prefix_cache_mib <= kMaxKvMib, "prefix_cache",
                               static_cast<double>(prefix_cache_mib), "0 to 1e9 (MiB)"));
  BASS_RETURN_IF_ERROR(require(options.max_step_tokens >= 16 && options.max_step_tokens <= 65536, "max_step_tokens",
                               options.max_step_tokens, "16 to 65536"));
  if (const Status status = check_device_name(options.device); !status.ok()) {
    return invalid_argument(fmt::format("device '{}': {}", options.device, status.message()));
  }
  if (options.quantize != "none" && !find_quantisable_type(options.quantize).has_value()) {
    return invalid_argument(
        fmt::format("quantize '{}' is not known; use none, q8_0, q5_1, q5_0, q4_1 or q4_0", options.quantize));
  }
  return ok_status();
}

// Comparisons are written so that NaN fails them.
Status validate_sampling(const SamplingOptions& sampling, int vocab_size) {
  const auto in = [](float x, float low, float high) { return x >= low && x <= high; };
  BASS_RETURN_IF_ERROR(require(in(sampling.temperature, 0, 1e6f), "temperature", sampling.temperature,
                               "a number from 0 (greedy) to 1e6"));
  BASS_RETURN_IF_ERROR(
      require(sampling.top_p > 0 && sampling.top_p <= 1, "top_p", sampling.top_p, "above 0 and at most 1 (1 is off)"));
  BASS_RETURN_IF_ERROR(require(sampling.top_k >= 0, "top_k", sampling.top_k, "at least 0 (0 is off)"));
  BASS_RETURN_IF_ERROR(require(in(sampling.min_p, 0, 1), "min_p", sampling.min_p, "0 to 1 (0 is off)"));
  BASS_RETURN_IF_ERROR(require(in(sampling.repetition_penalty, 0.01f, 100), "repetition_penalty",
                               sampling.repetition_penalty, "0.01 to 100 (1 is off)"));
  BASS_RETURN_IF_ERROR(
      require(in(sampling.presence_penalty, -2, 2), "presence_penalty", sampling.presence_penalty, "-2 to 2"));
  BASS_RETURN_IF_ERROR(
      require(in(sampling.frequency_penalty, -2, 2), "frequency_penalty", sampling.frequency_penalty, "-2 to 2"));
  // Each of them is looked at for each token that is drawn.
  BASS_RETURN_IF_ERROR(require(sampling.logit_bias.size() <= static_cast<size_t>(vocab_size), "logit_bias's length",
                               static_cast<double>(sampling.logit_bias.size()),
                               fmt::format("at most {}, the vocabulary's size", vocab_size)));
  for (const auto& [id, bias] : sampling.logit_bias) {
    BASS_RETURN_IF_ERROR(require(id >= 0 && id < vocab_size, "logit_bias's token", id,
                                 fmt::format("a token id from 0 to {}", vocab_size - 1)));
    BASS_RETURN_IF_ERROR(require(in(bias, -1e6f, 1e6f), "logit_bias", bias, "a number from -1e6 to 1e6"));
  }
  return ok_status();
}

Status validate_request(const Request& request, bool has_draft, int vocab_size) {
  BASS_RETURN_IF_ERROR(require(request.n >= 1 && request.n <= 65536, "n", request.n, "1 to 65536"));
  BASS_RETURN_IF_ERROR(
      require(request.max_tokens >= (request.prompt_logprobs ? 0 : 1), "max_tokens", request.max_tokens, "at least 1"));
  BASS_RETURN_IF_ERROR(validate_sampling(request.sampling, vocab_size));
  BASS_RETURN_IF_ERROR(require_known(request.speculation.drafter, DrafterChoice::kOff, "drafter"));
  BASS_RETURN_IF_ERROR(
      require_known(request.speculation.verify.value_or(VerifyRule::kMatch), VerifyRule::kBlock, "verify"));
  BASS_RETURN_IF_ERROR(require(request.top_logprobs >= 0 && request.top_logprobs <= 20, "top_logprobs",
                               request.top_logprobs, "0 to 20"));
  if (request.prompt.empty() && request.prompt_tokens.empty() && request.messages.empty()) {
    return invalid_argument("the prompt is empty; give at least one character");
  }
  if (const auto bad_byte = find_invalid_utf8(request.prompt)) {
    return invalid_argument(fmt::format("the prompt is not valid UTF-8 at byte {}; convert it first", *bad_byte));
  }
  if (request.system && find_invalid_utf8(*request.system)) {
    return invalid_argument(fmt::format("the system message is not valid UTF-8 at byte {}; convert it first",
                                        *find_invalid_utf8(*request.system)));
  }
  BASS_RETURN_IF_ERROR(check_messages(request.messages));
  if (request.tools) BASS_RETURN_IF_ERROR(validate_tools(request));
  for (const TokenId token : request.prompt_tokens) {
    BASS_RETURN_IF_ERROR(require(token >= 0 && token < vocab_size, "a prompt token", token,
                                 fmt::format("a token id from 0 to {}", vocab_size - 1)));
  }
  BASS_RETURN_IF_ERROR(StopMatcher::check(request.stop));
  if (request.json_schema && request.regex) {
    return invalid_argument("json_schema and regex: an answer follows one of them; leave the other one out");
  }
  if (request.time_budget_s && !(*request.time_budget_s > 0 && *request.time_budget_s < 1e9)) {
    return invalid_argument(
        fmt::format("time_budget is {}; it must be a number of seconds above 0 and below 1e9", *request.time_budget_s));
  }
  if (request.speculation.drafter == DrafterChoice::kModel && !has_draft) {
    return invalid_argument("drafter 'model' needs a draft model; give one with -d DRAFT.gguf");
  }
  return ok_status();
}

}  // namespace bass
