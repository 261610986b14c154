#include "cli/bench/workload.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "cli/bench/token_times.h"
#include "cli/interrupt.h"

namespace bass {
namespace {

// What the prompts are made of. Plain text and code, so that drafters meet what they are for.
constexpr std::string_view kText =
    "The river rose in the night, and by morning the bridge at the lower mill could not be crossed. Two farmers and a "
    "teacher stood on the near bank and talked about the time it would take to walk round by the old quarry road. "
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n    return total / "
    "len(values)\n\n"
    "A battery stores energy by moving ions from one electrode to the other; when it is charged they are moved back. "
    "def longest_word(text):\n    words = text.split()\n    best = ''\n    for word in words:\n        if len(word) > "
    "len(best):\n"
    "            best = word\n    return best\n\n"
    "She kept the letters in a tin box under the stairs, tied with string, the oldest at the bottom. In the spring she "
    "read them again from the beginning, one each evening, and wrote the dates in the margin of her calendar. ";

}  // namespace

int64_t BenchRun::n_sequence_steps() const {
  const auto sum = [](const SpeculationStats& stats) {
    return std::accumulate(stats.draft_length_histogram.begin(), stats.draft_length_histogram.end(), int64_t{0});
  };
  return sum(end.speculation) - sum(begin.speculation);
}

Status check_all_ended_well(const GenerationResult& result) {
  if (result.was_interrupted) return {StatusCode::kCancelled, "interrupted"};
  for (const PromptResult& prompt : result.prompts) {
    for (const ChoiceResult& choice : prompt.choices) {
      if (choice.finish_reason != FinishReason::kError) continue;
      return {choice.error.code(), fmt::format("{}: {}", prompt.origin, choice.error.message())};
    }
  }
  return ok_status();
}

Result<BenchRun> BenchRunner::run(const BenchCase& bench_case) {
  BASS_ASSIGN_OR_RETURN(std::vector<Request> requests, make_requests(bench_case));
  const Status found = engine_->populate_kv(requests);
  if (!found.ok() && found.code() != StatusCode::kResourceExhausted) return found;
  const auto events = std::make_shared<EventQueue>();
  BenchRun run;
  run.begin = engine_->stats();
  BASS_ASSIGN_OR_RETURN(const std::vector<RequestId> ids, submit(std::move(requests), events));
  BASS_RETURN_IF_ERROR(wait(ids, events.get(), &run.seconds_per_token));
  run.end = engine_->stats();
  return run;
}

Result<std::vector<RequestId>> BenchRunner::submit(std::vector<Request> requests,
                                                   const std::shared_ptr<EventQueue>& events) {
  const ClosedGate until_all_are_submitted(start_);
  std::vector<RequestId> ids;
  for (Request& request : requests) {
    BASS_ASSIGN_OR_RETURN(const RequestId id, engine_->submit(std::move(request), events));
    ids.push_back(id);
  }
  return ids;
}

// Distinct prompts: each starts elsewhere in the text.
Result<std::vector<Request>> BenchRunner::make_requests(const BenchCase& bench_case) const {
  BASS_ASSIGN_OR_RETURN(const std::vector<TokenId> text, engine_->tokenize(kText, false, false));
  constexpr size_t kStride = 7;
  std::vector<Request> requests(static_cast<size_t>(bench_case.batch), prototype_);
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    for (int k = 0; k < bench_case.n_prompt_tokens; ++k) {
      request.prompt_tokens.push_back(text[(i * kStride + static_cast<size_t>(k)) % text.size()]);
    }
    request.max_tokens = bench_case.n_generated;
    if (request.seed) *request.seed += i;
    request.sampling.ignore_eos = true;
    request.job = 1;  // all are timed together
    if (!bench_case.is_speculative) request.speculation.drafter = DrafterChoice::kOff;
  }
  return requests;
}

Status BenchRunner::wait(const std::vector<RequestId>& ids, EventQueue* events,
                         std::vector<double>* seconds_per_token) {
  TokenTimes times;
  size_t n_done = 0;
  Status status;
  while (n_done < ids.size()) {
    Event event;
    if (events->wait(&event, kPollInterval)) {
      n_done += event.kind == Event::Kind::kDone ? 1 : 0;
      if (event.kind == Event::Kind::kTokens) times.note(event.request_id, event.tokens.size());
      if (event.kind == Event::Kind::kFinished && !event.error.ok()) status = event.error;
    }
    if (is_interrupted() && status.ok()) {
      status = Status(StatusCode::kCancelled, "interrupted");
      for (const RequestId id : ids) engine_->cancel(id);
    }
  }
  *seconds_per_token = times.seconds_per_token();
  return status;
}

}  // namespace bass
