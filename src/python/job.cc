#include "python/job.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "cli/generation.h"

namespace bass::python {
namespace {

std::chrono::steady_clock::time_point deadline_in(double seconds) {
  using std::chrono::steady_clock;
  return steady_clock::now() +
         std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Result<std::unique_ptr<Job>> Job::submit(std::shared_ptr<OwnedEngine> engine, std::vector<PromptSpec> prompts) {
  for (const PromptSpec& spec : prompts) BASS_RETURN_IF_ERROR(with_origin(engine->engine->check(spec.request), spec));
  std::unique_ptr<Job> job(new Job(std::move(engine)));
  BASS_RETURN_IF_ERROR(job->submit_all(std::move(prompts)));
  return job;
}

Status Job::submit_all(std::vector<PromptSpec> prompts) {
  const uint64_t number = ++engine_->n_jobs;  // all prompts of a job are wanted together
  const std::lock_guard lock(mutex_);
  for (PromptSpec& spec : prompts) {
    PromptResult result = result_before(spec);
    spec.request.job = number;
    const Result<RequestId> id = engine_->engine->submit(std::move(spec.request), events_);
    if (!id.ok()) return with_origin(id.status(), spec);  // those before it end with the job
    running_.emplace(id.value(), std::move(result));
  }
  return ok_status();
}

Job::~Job() {
  if (is_here()) cancel();
}

bool Job::wait(Event* event, Clock::time_point deadline) {
  const std::chrono::duration<double> left = deadline - Clock::now();
  return !is_done() && events_->wait(event, std::max(left, std::chrono::duration<double>(0)));
}

std::optional<PromptResult> Job::next_ended(double timeout_s) {
  const auto deadline = deadline_in(timeout_s);
  const std::unique_lock reader(reader_, deadline);
  if (!reader.owns_lock()) return std::nullopt;
  for (Event event; wait(&event, deadline);) {
    const std::lock_guard lock(mutex_);
    const auto place = running_.find(event.request_id);
    const bool is_last = event.kind == Event::Kind::kDone;
    take_event(std::move(event), &place->second);
    if (is_last) return std::move(running_.extract(place).mapped());
  }
  return std::nullopt;
}

std::optional<Piece> Job::next_piece(double timeout_s) {
  const auto deadline = deadline_in(timeout_s);
  const std::unique_lock reader(reader_, deadline);
  if (!reader.owns_lock()) return std::nullopt;
  for (Event event; wait(&event, deadline);) {
    const std::lock_guard lock(mutex_);
    const auto place = running_.find(event.request_id);
    const int prompt_idx = place->second.index;
    const bool is_last = event.kind == Event::Kind::kDone;
    if (is_last) running_.erase(place);
    const bool is_news = is_last ? !event.error.ok() : event.kind != Event::Kind::kPrompt;
    if (is_news) return Piece{prompt_idx, std::move(event)};
  }
  return std::nullopt;
}

bool Job::is_done() const {
  const std::lock_guard lock(mutex_);
  return running_.empty();
}

void Job::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, result] : running_) engine_->engine->cancel(id);
}

}  // namespace bass::python
