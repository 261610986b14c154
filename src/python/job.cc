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

Status interrupted() { return {StatusCode::kCancelled, "interrupted"}; }

}  // namespace

OwnedEngine::~OwnedEngine() {
  if (!is_here()) (void)engine_.release();  // NOLINT(bugprone-unused-return-value): the parent's
}

void OwnedEngine::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (Job* job : jobs_) job->cancel();
}

bool OwnedEngine::add(Job* job) {
  const std::lock_guard lock(mutex_);
  if (!is_closed_) jobs_.insert(job);
  return !is_closed_;
}

uint64_t OwnedEngine::next_job() {
  const std::lock_guard lock(mutex_);
  return ++n_jobs_;
}

void OwnedEngine::remove(Job* job) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

bool OwnedEngine::is_closed() {
  const std::lock_guard lock(mutex_);
  return is_closed_;
}

Result<std::unique_ptr<Job>> Job::submit(const std::shared_ptr<OwnedEngine>& engine, std::vector<PromptSpec> prompts,
                                         const std::function<bool()>& is_stopped) {
  for (const PromptSpec& spec : prompts) {
    if (is_stopped()) return interrupted();
    BASS_RETURN_IF_ERROR(with_origin(engine->engine().check(spec.request), spec));
  }
  std::unique_ptr<Job> job(new Job(engine));
  if (!engine->add(job.get())) return OwnedEngine::closed();
  BASS_RETURN_IF_ERROR(job->submit_all(std::move(prompts), is_stopped));
  job->leave_engine_if_done();
  return job;
}

// All prompts of a job are wanted together. Where this ends early, those before end with the job; nobody reads its
// events meanwhile.
Status Job::submit_all(std::vector<PromptSpec> prompts, const std::function<bool()>& is_stopped) {
  const uint64_t number = engine_->next_job();
  const auto start = Clock::now();
  for (PromptSpec& spec : prompts) {
    if (is_stopped()) return interrupted();
    PromptResult result = result_before(spec);
    spec.request.job = number;
    (void)take_from_budget(std::chrono::duration<double>(Clock::now() - start).count(), &spec.request);
    const Result<RequestId> id = engine_->engine().submit(std::move(spec.request), events_);
    if (!id.ok()) return with_origin(id.status(), spec);
    const std::lock_guard lock(mutex_);
    running_.emplace(id.value(), EndedPrompt{std::move(result), {}});
  }
  return engine_->is_closed() ? OwnedEngine::closed() : ok_status();
}

Job::~Job() {
  if (engine_ == nullptr || !is_here()) return;
  cancel();
  engine_->remove(this);
}

bool Job::wait(Event* event, Clock::time_point deadline) {
  const std::chrono::duration<double> left = deadline - Clock::now();
  return !is_done() && events_->wait(event, std::max(left, std::chrono::duration<double>(0)));
}

void Job::leave_engine_if_done() {
  std::shared_ptr<OwnedEngine> engine;
  {
    const std::lock_guard lock(mutex_);
    if (running_.empty()) engine = std::move(engine_);
  }
  if (engine != nullptr) engine->remove(this);
}

std::optional<EndedPrompt> Job::next_ended(double timeout_s) {
  const auto deadline = deadline_in(timeout_s);
  const std::unique_lock reader(reader_, deadline);
  if (!reader.owns_lock()) return std::nullopt;
  std::optional<EndedPrompt> ended;
  for (Event event; !ended.has_value() && wait(&event, deadline);) {
    const std::lock_guard lock(mutex_);
    const auto place = running_.find(event.request_id);
    const bool is_last = event.kind == Event::Kind::kDone;
    if (event.kind == Event::Kind::kPrompt) place->second.prompt_tokens = std::move(event.prompt_tokens);
    take_event(std::move(event), &place->second.result);
    if (is_last) ended = std::move(running_.extract(place).mapped());
  }
  if (ended.has_value()) leave_engine_if_done();
  return ended;
}

std::optional<Piece> Job::next_piece(double timeout_s) {
  const auto deadline = deadline_in(timeout_s);
  const std::unique_lock reader(reader_, deadline);
  if (!reader.owns_lock()) return std::nullopt;
  for (Event event; wait(&event, deadline);) {
    const bool is_last = event.kind == Event::Kind::kDone;
    int prompt_idx = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto place = running_.find(event.request_id);
      prompt_idx = place->second.result.index;
      if (is_last) running_.erase(place);
    }
    if (is_last) leave_engine_if_done();
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
  if (engine_ == nullptr) return;
  for (const auto& [id, prompt] : running_) engine_->engine().cancel(id);
}

}  // namespace bass::python
