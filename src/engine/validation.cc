#include "engine/validation.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/check.h"
#include "engine/options.h"
#include "engine/tools.h"
#include "text/chat_template.h"
#include "text/stop_strings.h"
#include "text/utf8.h"

namespace bass {
namespace {

Status require(bool holds, std::string_view name, double value, std::string_view range) {
  if (holds) return ok_status();
  return invalid_argument(fmt::format("{} is {}; it must be {}", name, value, range));
}

Status check_option(const Option& option, double value) {
  const Status status = check_number(option, value);
  return status.ok() ? status : invalid_argument(fmt::format("{} is {}; it {}", option.name, value, status.message()));
}

Status check_option(const Option& option, const std::string& value) {
  const Status status = option.check(value);
  return status.ok() ? status : invalid_argument(fmt::format("{} '{}': {}", option.name, value, status.message()));
}

template <class T>
Status check_option(const Option& option, const std::optional<T>& value) {
  return value ? check_option(option, static_cast<double>(*value)) : ok_status();
}

/// By the option's row in the table.
template <class T>
Status check_option(std::string_view name, const T& value) {
  const Option* option = find_option(name);
  BASS_CHECK(option != nullptr);
  return check_option(*option, value);
}

// A library's caller may have cast any number to an enumeration.
template <class Kind>
Status require_known(Kind kind, Kind last, std::string_view name) {
  const auto number = static_cast<int>(kind);
  return require(number >= 0 && number <= static_cast<int>(last), name, number, "one of its enumeration");
}

Status require_token(TokenId id, std::string_view name, int vocab_size) {
  return require(id >= 0 && id < vocab_size, name, id, fmt::format("a token id from 0 to {}", vocab_size - 1));
}

// Each of them is compared with each token that is drawn.
Status validate_stop_tokens(const std::vector<TokenId>& ids, int vocab_size) {
  constexpr size_t kMaxIds = 256;
  BASS_RETURN_IF_ERROR(require(ids.size() <= kMaxIds, "stop_token_ids' length", static_cast<double>(ids.size()),
                               fmt::format("at most {}", kMaxIds)));
  for (const TokenId id : ids) {
    BASS_RETURN_IF_ERROR(require_token(id, "one of stop_token_ids", vocab_size));
  }
  return ok_status();
}

/// Of what chats alone have.
Status require_chat(const Request& request, std::string_view name) {
  if (request.prompt_tokens.empty() && (!request.messages.empty() || request.chat)) return ok_status();
  return invalid_argument(
      fmt::format("{}: has a place in chats alone; ask with messages, or with chat, or leave it out", name));
}

/// text: its JSON, or none
Status validate_of_chat(const Request& request, std::string_view name, const std::optional<std::string>& text,
                        Status (*check)(std::string_view)) {
  if (!text) return ok_status();
  BASS_RETURN_IF_ERROR(require_chat(request, name));
  const Status status = check(*text);
  return status.ok() ? status : Status(status.code(), fmt::format("{}: {}", name, status.message()));
}

}  // namespace

Status validate_options(const EngineOptions& options) {
  if (options.model_path.empty()) return invalid_argument("model_path is empty; it names the model's file");
  BASS_RETURN_IF_ERROR(require_known(options.attention, AttentionKind::kSplitGrouped, "attention"));
  BASS_RETURN_IF_ERROR(require_known(options.activations, ActivationKind::kFp8, "activations"));
  BASS_RETURN_IF_ERROR(require_known(options.kv, KvKind::kBf16, "kv"));
  BASS_RETURN_IF_ERROR(check_option("max_batch", options.max_batch));
  BASS_RETURN_IF_ERROR(check_option("threads", options.n_threads));
  BASS_RETURN_IF_ERROR(check_option("context", options.context_len));
  BASS_RETURN_IF_ERROR(check_option("kv_memory", options.kv_memory_mib));
  BASS_RETURN_IF_ERROR(check_option("prefix_cache", options.prefix_cache_mib));
  BASS_RETURN_IF_ERROR(check_option("max_step_tokens", options.max_step_tokens));
  BASS_RETURN_IF_ERROR(check_option("device", options.device));
  return check_option("quantize", options.quantize);
}

Status validate_sampling(const SamplingOptions& sampling, int vocab_size) {
  BASS_RETURN_IF_ERROR(check_option("temperature", sampling.temperature));
  BASS_RETURN_IF_ERROR(check_option("top_p", sampling.top_p));
  BASS_RETURN_IF_ERROR(check_option("top_k", sampling.top_k));
  BASS_RETURN_IF_ERROR(check_option("min_p", sampling.min_p));
  BASS_RETURN_IF_ERROR(check_option("repetition_penalty", sampling.repetition_penalty));
  BASS_RETURN_IF_ERROR(check_option("presence_penalty", sampling.presence_penalty));
  BASS_RETURN_IF_ERROR(check_option("frequency_penalty", sampling.frequency_penalty));
  // Each of them is looked at for each token that is drawn.
  BASS_RETURN_IF_ERROR(require(sampling.logit_bias.size() <= static_cast<size_t>(vocab_size), "logit_bias's length",
                               static_cast<double>(sampling.logit_bias.size()),
                               fmt::format("at most {}, the vocabulary's size", vocab_size)));
  for (const auto& [id, bias] : sampling.logit_bias) {
    BASS_RETURN_IF_ERROR(require_token(id, "logit_bias's token", vocab_size));
    BASS_RETURN_IF_ERROR(require(std::abs(bias) <= kMaxBias, "logit_bias", bias,  // so written, NaN fails it
                                 fmt::format("a number from -{0} to {0}", kMaxBias)));
  }
  return ok_status();
}

Status validate_request(const Request& request, bool has_draft, int vocab_size) {
  BASS_RETURN_IF_ERROR(check_option("n", request.n));
  const bool is_score = request.prompt_logprobs && request.max_tokens == 0;
  if (!is_score) BASS_RETURN_IF_ERROR(check_option("max_tokens", request.max_tokens));
  BASS_RETURN_IF_ERROR(validate_sampling(request.sampling, vocab_size));
  BASS_RETURN_IF_ERROR(require_known(request.speculation.drafter, DrafterChoice::kOff, "drafter"));
  BASS_RETURN_IF_ERROR(
      require_known(request.speculation.verify.value_or(VerifyRule::kMatch), VerifyRule::kBlock, "verify"));
  BASS_RETURN_IF_ERROR(check_option("top_logprobs", request.top_logprobs));
  BASS_RETURN_IF_ERROR(check_option("time_budget", request.time_budget_s));
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
  BASS_RETURN_IF_ERROR(validate_of_chat(request, "tools", request.tools, check_tools));
  BASS_RETURN_IF_ERROR(
      validate_of_chat(request, "chat_template_kwargs", request.chat_template_kwargs, check_template_variables));
  if (request.continue_final_message) BASS_RETURN_IF_ERROR(require_chat(request, "continue_final_message"));
  if (request.think_first) BASS_RETURN_IF_ERROR(require_chat(request, "think_first"));
  BASS_RETURN_IF_ERROR(check_option("thinking_budget", request.thinking_budget));
  if (request.thinking_budget) BASS_RETURN_IF_ERROR(require_chat(request, "thinking_budget"));
  for (const TokenId token : request.prompt_tokens) {
    BASS_RETURN_IF_ERROR(require_token(token, "a prompt token", vocab_size));
  }
  BASS_RETURN_IF_ERROR(StopMatcher::check(request.stop));
  BASS_RETURN_IF_ERROR(require(request.min_tokens >= 0 && request.min_tokens <= request.max_tokens, "min_tokens",
                               request.min_tokens,
                               fmt::format("from 0 to max_tokens, which is {}", request.max_tokens)));
  BASS_RETURN_IF_ERROR(validate_stop_tokens(request.stop_token_ids, vocab_size));
  if (request.json_schema && request.regex) {
    return invalid_argument("json_schema and regex: an answer follows one of them; leave the other one out");
  }
  if (request.speculation.drafter == DrafterChoice::kModel && !has_draft) {
    return invalid_argument("drafter 'model' needs a draft model; give one with -d DRAFT.gguf");
  }
  return ok_status();
}

}  // namespace bass
