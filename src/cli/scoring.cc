#include "cli/scoring.h"

#include <cmath>
#include <memory>
#include <unordered_map>

#include "base/check.h"
#include "cli/interrupt.h"
#include "cli/report.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

Status interrupted() { return {StatusCode::kCancelled, "interrupted"}; }

/// A request for its prompt's log-probabilities alone.
void make_scoring(Request* request) {
  request->n = 1;
  request->max_tokens = 0;
  request->prompt_logprobs = true;
  request->time_budget_s.reset();
  request->speculation.drafter = DrafterChoice::kOff;
}

/// Requests that run; what nobody waits for any more is cancelled.
class Scoring {
 public:
  explicit Scoring(Engine* engine) : engine_(engine) {}
  ~Scoring() {
    for (const auto& [id, idx] : idx_) engine_->cancel(id);
  }
  Scoring(const Scoring&) = delete;
  Scoring& operator=(const Scoring&) = delete;

  Status submit(std::vector<PromptSpec> prompts, const std::function<bool()>& is_stopped) {
    for (PromptSpec& spec : prompts) {
      if (is_stopped()) return interrupted();
      make_scoring(&spec.request);
      const Result<RequestId> id = engine_->submit(std::move(spec.request), events_);
      if (!id.ok()) return with_origin(id.status(), spec);
      idx_[id.value()] = prompts_.size();
      prompts_.emplace_back();
    }
    return ok_status();
  }

  /// The kPrompt event of each.
  Result<std::vector<Event>> wait(const std::function<bool()>& is_stopped) {
    while (!idx_.empty()) {
      if (is_stopped()) return interrupted();
      Event event;
      if (!events_->wait(&event, kPollInterval)) continue;
      if (!event.error.ok()) return event.error;
      const auto place = idx_.find(event.request_id);
      if (event.kind == Event::Kind::kPrompt) {
        prompts_[place->second] = std::move(event);
      } else if (event.kind == Event::Kind::kDone) {
        idx_.erase(place);
      }
    }
    return std::move(prompts_);
  }

 private:
  Engine* engine_;
  std::shared_ptr<EventQueue> events_ = std::make_shared<EventQueue>();
  std::unordered_map<RequestId, size_t> idx_;  // of those that run, in prompts_
  std::vector<Event> prompts_;
};

std::optional<double> perplexity_of(const std::vector<float>& logprobs) {
  if (logprobs.empty()) return std::nullopt;
  double sum = 0;
  for (const float logprob : logprobs) sum += static_cast<double>(logprob);
  return std::exp(-sum / static_cast<double>(logprobs.size()));
}

}  // namespace

Result<std::vector<Score>> score_prompts(Engine* engine, std::vector<PromptSpec> specs,
                                         const std::function<bool()>& is_stopped) {
  Scoring scoring(engine);
  BASS_RETURN_IF_ERROR(scoring.submit(std::move(specs), is_stopped));
  BASS_ASSIGN_OR_RETURN(std::vector<Event> prompts, scoring.wait(is_stopped));
  std::vector<Score> scores;
  for (Event& prompt : prompts) {
    const std::optional<double> perplexity = perplexity_of(prompt.prompt_logprobs);
    scores.push_back({std::move(prompt), perplexity});
  }
  return scores;
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
