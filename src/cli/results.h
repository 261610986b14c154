// What a run of `bass generate` brought, ranked and summed up.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bass/engine.h"

namespace bass {

struct ChoiceResult {
  int index = 0;
  int rank = 0;  ///< 1 is the best of its prompt; 0 before ranking
  bool is_finished = false;
  std::string text;
  std::vector<TokenInfo> tokens;
  int64_t n_tokens = 0;                  ///< as many, until these are released
  std::vector<TopLogprob> top_logprobs;  ///< [tokens, as many as were asked for]
  std::vector<size_t> token_ends;        ///< where each token's bytes end; only filled when origins are shown
  bool at_start = false;                 ///< then: the text is the beginning of one, and has only begun
  FinishReason finish_reason = FinishReason::kCancelled;
  ChoiceStats stats;
  Status error;
  std::optional<double> mean_logprob;  ///< none without tokens

  void add(const TokenInfo& token) {
    tokens.push_back(token);
    ++n_tokens;
  }
};

struct PromptResult {
  int index = 0;
  std::string origin;
  std::optional<nlohmann::ordered_json> id;
  RequestId request_id = 0;  ///< the engine's
  double submitted_s = 0;    ///< after the first prompt was
  int n_prompt_tokens = 0;
  std::vector<ChoiceResult> choices;
};

struct GenerationResult {
  std::string model;
  std::optional<std::string> draft;
  std::vector<PromptResult> prompts;
  double load_s = 0;
  double total_s = 0;  ///< from submission to the last event
  EngineStats stats;
  bool was_interrupted = false;
  bool has_hung = false;   ///< the engine did not answer that: it cannot be ended, only left
  Status on_ended_status;  ///< the error that ended the run: of GenerationSettings::on_ended, or of a late submission
};

/// The paper's three latencies in milliseconds; none where no sequence produced a token.
struct LatencySummary {
  std::optional<double> first_ms;  ///< of the sequence that finished first
  std::optional<double> last_ms;
  std::optional<double> all_ms;  ///< mean over sequences
};

struct Summary {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  double tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  LatencySummary latency;
  SpeculationStats speculation;  ///< summed over sequences
  std::optional<double> acceptance_rate;
  std::optional<double> mean_accepted_len;
  std::optional<double> tokens_per_round;
  int longest_draft = 0;  ///< the last length of the histogram that occurred
};

/// Adds what an event of the prompt's request says; kDone ends its choices and ranks them.
void take_event(Event event, PromptResult* prompt);

/// Ends the choices that nobody told the end of: the engine had no memory to, or never heard of them.
void end_untold(FinishReason reason, const Status& error, PromptResult* prompt);

/// Sets mean_logprob and rank: finished (stop, length) before unfinished, then by mean log-probability, then by index.
void rank_choices(PromptResult* prompt);

/// The choices from the best to the worst. Needs ranks. Pointers into `prompt`.
std::vector<const ChoiceResult*> ranked_choices(const PromptResult& prompt);

/// Frees the tokens of all choices, and their texts, with a live view but for the ends, which it shows.
void release_texts(bool has_view, PromptResult* prompt);

Summary summarise(const GenerationResult& result);

}  // namespace bass
