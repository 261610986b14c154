#include "cli/scoring.h"

#include <cmath>
#include <memory>

#include "base/check.h"
#include "cli/report.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

/// Waits for the request's end; its kPrompt event is the score.
Result<Event> wait_for_prompt(Engine* engine, RequestId id, EventQueue* events,
                              const std::function<bool()>& is_stopped) {
  constexpr std::chrono::duration<double> kPollInterval{0.1};
  Event prompt;
  bool is_cancelled = false;
  while (true) {
    Event event;
    if (events->wait(&event, kPollInterval)) {
      if (!event.error.ok()) return event.error;
      if (event.kind == Event::Kind::kDone) break;
      if (event.kind == Event::Kind::kPrompt) prompt = std::move(event);
    }
    if (!is_cancelled && is_stopped()) {
      engine->cancel(id);
      is_cancelled = true;
    }
  }
  if (is_cancelled) return Status(StatusCode::kCancelled, "interrupted");
  return prompt;
}

std::optional<double> perplexity_of(const std::vector<float>& logprobs) {
  if (logprobs.empty()) return std::nullopt;
  double sum = 0;
  for (const float logprob : logprobs) sum += static_cast<double>(logprob);
  return std::exp(-sum / static_cast<double>(logprobs.size()));
}

}  // namespace

Result<Score> score_prompt(Engine* engine, Request request, const std::function<bool()>& is_stopped) {
  request.n = 1;
  request.max_tokens = 0;
  request.prompt_logprobs = true;
  request.speculation.drafter = DrafterChoice::kOff;
  const auto events = std::make_shared<EventQueue>();
  BASS_ASSIGN_OR_RETURN(const RequestId id, engine->submit(std::move(request), events));
  Score score;
  BASS_ASSIGN_OR_RETURN(score.prompt, wait_for_prompt(engine, id, events.get(), is_stopped));
  score.perplexity = perplexity_of(score.prompt.prompt_logprobs);
  return score;
}

nlohmann::ordered_json score_json(const Score& score) {
  Json logprobs = Json::array({nullptr});  // nothing precedes the first token
  for (const float logprob : score.prompt.prompt_logprobs) logprobs.push_back(logprob);
  Json top5 = Json::array();
  for (const auto& [id, logprob] : score.prompt.last_top5) top5.push_back(Json::array({id, logprob}));
  return {{"ids", score.prompt.prompt_tokens},
          {"logprobs", std::move(logprobs)},
          {"last_top5", std::move(top5)},
          {"perplexity", nullable(score.perplexity)}};
}

}  // namespace bass
