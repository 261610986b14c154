// What is asked of the engine, and what it answers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bass/status.h"
#include "bass/types.h"

namespace bass {

using RequestId = uint64_t;

/// How a token is drawn from the model's logits. Applied in this order: repetition penalty, presence and frequency
/// penalties, logit bias, temperature, top-k, top-p, min-p.
struct SamplingOptions {
  float temperature = 0.8f;                           ///< [0, 1e6]; 0 is greedy
  float top_p = 1.0f;                                 ///< (0, 1]; 1 is off
  int top_k = 0;                                      ///< >= 0; 0 is off
  float min_p = 0.0f;                                 ///< [0, 1]; 0 is off
  float repetition_penalty = 1.0f;                    ///< [0.01, 100]; 1 is off; over prompt and output
  float presence_penalty = 0.0f;                      ///< [-2, 2]; over the output
  float frequency_penalty = 0.0f;                     ///< [-2, 2]; over the output
  std::vector<std::pair<TokenId, float>> logit_bias;  ///< added to these tokens' logits; [-1e6, 1e6]; at most
                                                      ///< as many as the vocabulary has tokens
  bool ignore_eos = false;                            ///< end tokens are banned, not emitted
};

/// Which drafts may be used for a request. kAuto: every drafter that is at hand.
enum class DrafterChoice : uint8_t { kAuto, kModel, kNgram, kOff };

struct SpeculationOptions {
  DrafterChoice drafter = DrafterChoice::kAuto;
  std::string draft_length = "goodput";  ///< goodput | bass[:l0=7,...] | survival[:min=0.2] | fixed:K | off
  std::optional<VerifyRule> verify;      ///< none: match with a seed, block without
};

/// The rule of a request that names none.
constexpr VerifyRule default_verify_rule(bool has_seed) { return has_seed ? VerifyRule::kMatch : VerifyRule::kBlock; }

/// The rule that is used: greedy decoding is deterministic whatever the rule, and `match` compares token ids and no
/// distributions.
constexpr VerifyRule used_verify_rule(float temperature, std::optional<VerifyRule> named, bool has_seed) {
  return temperature == 0 ? VerifyRule::kMatch : named.value_or(default_verify_rule(has_seed));
}

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", or what else the model's chat template knows
  std::string content;
  std::string tool_calls;         ///< of an assistant: what it has called, OpenAI's list as JSON; empty: nothing
  std::string tool_call_id;       ///< of a tool's answer: the call's "id"; may be empty
  std::string name;               ///< of a tool's answer: the tool's name; may be empty
  std::string reasoning_content;  ///< of an assistant: what it thought, for templates that show it; may be empty
};

/// n samples of one prompt.
struct Request {
  std::string prompt;
  std::vector<TokenId> prompt_tokens;  ///< used instead of `prompt`, `messages`, `chat` and `system` when not empty
  std::vector<ChatMessage> messages;   ///< a conversation to answer, by the model's chat template; used instead of
                                       ///< `prompt`, `chat` and `system` when not empty
  bool chat = false;                   ///< format `prompt` as a user's message by the model's chat template
  std::optional<std::string> system;   ///< system message; without `chat` it means nothing
  /// Functions that the assistant may call: a JSON list as OpenAI's "tools", for the chat template; of a template that
  /// knows none they stand in the system message. The answer comes as the model writes it. Only of a chat.
  std::optional<std::string> tools;
  /// More variables for the chat template, a JSON object as transformers' chat_template_kwargs: {"enable_thinking":
  /// false}. A template that does not ask for one prints what it would without it. Only of a chat.
  std::optional<std::string> chat_template_kwargs;
  /// Go on with the last message's text, which the template does not end then. It has to have one, and no tool_calls.
  /// Only of a chat.
  bool continue_final_message = false;
  /// What follows json_schema or regex follows it behind the model's thoughts, if it has any: `<think>`, any text,
  /// `</think>`. Of a model whose chat template knows these marks; without json_schema or regex it thinks as it likes.
  /// Only of a chat.
  bool think_first = false;
  /// >= 0. Behind so many tokens of thoughts `</think>` comes, if the model has not ended them by then, and what
  /// follows is drawn as ever. Of a model whose chat template knows these marks, or has begun the thoughts; else it
  /// means nothing. Beside json_schema or regex it needs think_first. Only of a chat.
  std::optional<int> thinking_budget;
  int n = 1;             ///< samples, 1 to 65536; later requests wait until the last one has begun
  int max_tokens = 128;  ///< new tokens a sample; >= 1 (0 only with prompt_logprobs)
  /// No end token and none of stop_token_ids is drawn, and no stop string looked for, in a sample's first so many
  /// tokens; at most max_tokens. A text that is complete under json_schema or regex ends all the same.
  int min_tokens = 0;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  /// What the answer has to be, at most one of them. A JSON text that fits this JSON schema
  /// (docs/structured_output.md says what of it is known; "{}": any JSON value), or a text that the whole of this
  /// regular expression matches. Only tokens are drawn that can go on so, and the sample ends (kStop) when nothing may
  /// follow; max_tokens may cut it short.
  std::optional<std::string> json_schema;
  std::optional<std::string> regex;
  std::vector<std::string> stop;        ///< none may be empty; at most 256, of 64 KiB together
  std::vector<TokenId> stop_token_ids;  ///< these end a sample as end tokens do, also with ignore_eos; at most 256
  std::optional<uint64_t> seed;
  /// Requests of one engine that share a number are wanted together: while nobody waits for a place in the batch,
  /// `goodput` drafts for the end of the last one rather than for most tokens a second. 0: a job of its own, of all its
  /// samples. Requests with a time budget, and those that do not share a --draft-length, are not weighed so. Jobs
  /// that wait take turns, a request each.
  uint64_t job = 0;
  std::optional<double> time_budget_s;  ///< from submission; > 0, at most 1e8. Looked at between steps: overrun by at
                                        ///< most the time of 32 prompt tokens beside one round of decoding
  bool prompt_logprobs = false;         ///< report the log-probability of every prompt token (Event::kPrompt)
  /// 0 to 20: report so many of the most probable tokens in the place of each emitted one (Event::kTokens), and with
  /// prompt_logprobs of each prompt token (Event::kPrompt).
  int top_logprobs = 0;
};

/// A token that could have stood in a place: its log-probability by the main model, at temperature 1, before
/// processors.
struct TopLogprob {
  TokenId id = -1;  ///< -1: there are no more tokens of a probability above 0
  float logprob = 0;
  bool operator==(const TopLogprob&) const = default;
};

/// Where an emitted token came from.
enum class TokenOrigin : uint8_t {
  kRegular,     ///< a step without a draft
  kAccepted,    ///< a drafted token that verification accepted
  kCorrection,  ///< drawn in place of a rejected draft
  kBonus,       ///< drawn after a fully accepted draft
};

enum class FinishReason : uint8_t {
  kStop,      ///< an end token, a stop string, or nothing may follow under json_schema or regex
  kLength,    ///< max_tokens, or the context is full
  kDeadline,  ///< time_budget_s
  kCancelled,
  kError,  ///< Event::error says which
};
const char* to_string(FinishReason reason);

struct TokenInfo {
  TokenId id = 0;
  float logprob = 0;  ///< main model, temperature 1, before processors, natural logarithm
  TokenOrigin origin = TokenOrigin::kRegular;
};

/// Counters of speculation, of one choice or of a whole engine.
struct SpeculationStats {
  static constexpr int kMaxDraftLen = 32;
  int64_t rounds = 0;    ///< verifications of at least one drafted token
  int64_t drafted = 0;   ///< drafted tokens that were verified
  int64_t accepted = 0;  ///< of these, the ones that were accepted and emitted
  std::array<int64_t, kMaxDraftLen + 1> draft_length_histogram{};  ///< [0]: decode steps without a draft
};

/// Passes of the draft model, and the seconds that they took. The first pass of a step also sees the tokens that the
/// draft model has not seen; each further one drafts one token more.
struct DraftTimes {
  int64_t n_first = 0;
  int64_t n_later = 0;
  double first_s = 0;
  double later_s = 0;

  /// Adds `other` `n` times.
  DraftTimes& add(const DraftTimes& other, int n = 1) {
    n_first += n * other.n_first;
    n_later += n * other.n_later;
    first_s += n * other.first_s;
    later_s += n * other.later_s;
    return *this;
  }
};

/// Passes through a model on a GPU, by how their kernels were launched. All 0 on a CPU.
struct GraphCounts {
  int64_t replayed = 0;             ///< as one graph
  int64_t recorded = 0;             ///< graphs: one for each size of pass, when it comes again
  int64_t launched_one_by_one = 0;  ///< a size's first, many rows, a layout that graphs do not serve, too many sizes

  [[nodiscard]] int64_t n_passes() const { return replayed + launched_one_by_one; }
  /// Adds `other` `n` times.
  GraphCounts& add(const GraphCounts& other, int n = 1) {
    replayed += n * other.replayed;
    recorded += n * other.recorded;
    launched_one_by_one += n * other.launched_one_by_one;
    return *this;
  }
};

struct ChoiceStats {
  double decode_s = 0;       ///< from the end of the prompt's prefill to the choice's last token
  double finished_at_s = 0;  ///< after submission
  SpeculationStats speculation;
};

/// One answer of the engine. Events of a choice come in order; kDone is a request's last event.
struct Event {
  enum class Kind : uint8_t {
    kPrompt,  ///< the prompt was processed: n_prompt_tokens, prompt_tokens, and with prompt_logprobs the rest. Not sent
              ///< where the request ends before
    kTokens,  ///< new tokens of a choice, and their text, which may be empty as yet
    kFinished,  ///< a choice ended: finish_reason, stats; with kError also `error`
    kDone,      ///< all choices of the request ended. With `error`: those without a kFinished by it, as there was no
                ///< memory to tell of each
  };
  Kind kind = Kind::kDone;
  RequestId request_id = 0;
  int choice_idx = 0;

  std::vector<TokenInfo> tokens;  ///< kTokens
  /// kTokens, kFinished: put together, a choice's text. Whole UTF-8 characters (what is none: U+FFFD), cut before a
  /// stop string; what may become either is held back, at most until kFinished.
  std::string text;
  /// [tokens.size(), Request::top_logprobs], the most probable first; kPrompt, with prompt_logprobs: of each prompt
  /// token but the first.
  std::vector<TopLogprob> top_logprobs;

  FinishReason finish_reason = FinishReason::kStop;
  ChoiceStats stats;
  Status error;

  int n_prompt_tokens = 0;
  int n_cached_tokens = 0;  ///< of these, that other texts had brought into the cache (EngineOptions::prefix_cache_mib)
  std::vector<TokenId> prompt_tokens;
  std::vector<float> prompt_logprobs;                ///< of tokens 1.., n_prompt_tokens - 1 values
  std::vector<TokenId> prompt_argmax;                ///< with prompt_logprobs: the most probable token in their places
  std::vector<std::pair<TokenId, float>> last_top5;  ///< with prompt_logprobs: those most probable after the prompt
};

}  // namespace bass
