// bass._engine.Job: a job's news as Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/report.h"
#include "python/job.h"
#include "python/module/errors.h"
#include "python/module/python_lock.h"
#include "text/user_json.h"

namespace bass::python {

class PyJob {
 public:
  explicit PyJob(std::unique_ptr<Job> job) : job_(std::move(job)) {}
  ~PyJob() {
    const Unlocked unlocked;  // the engine may end with it
    job_.reset();
  }
  PyJob(const PyJob&) = delete;
  PyJob& operator=(const PyJob&) = delete;

  // JSON of the next prompt that has ended; none: all have been told, or timeout_s has passed.
  std::optional<std::string> next_ended(std::optional<double> timeout_s) {
    const auto ended = wait_for([&](double part_s) { return job_->next_ended(part_s); }, timeout_s);
    if (!ended.has_value()) return std::nullopt;
    const Unlocked unlocked;
    nlohmann::ordered_json json = prompt_json(ended->result, /*shows_origins=*/false);
    json["prompt_token_ids"] = ended->prompt_tokens;
    return json_line(json);
  }

  // The fields of bass.Piece.
  std::optional<py::tuple> next_piece(std::optional<double> timeout_s) {
    const auto piece = wait_for([&](double part_s) { return job_->next_piece(part_s); }, timeout_s);
    if (!piece.has_value()) return std::nullopt;
    const Event& event = piece->event;
    if (event.kind == Event::Kind::kDone) raise(event.error);
    py::list ids, logprobs;
    for (const TokenInfo& token : event.tokens) {
      ids.append(token.id);
      logprobs.append(static_cast<double>(token.logprob));
    }
    py::object reason = py::none();
    if (event.kind == Event::Kind::kFinished) reason = py::str(to_string(event.finish_reason));
    py::object error = py::none();
    if (!event.error.ok()) error = py::str(event.error.message());
    return py::make_tuple(piece->prompt_idx, event.choice_idx, event.text, ids, logprobs, reason, error);
  }

  [[nodiscard]] bool is_done() const { return here().is_done(); }
  void cancel() {
    if (job_->is_here()) job_->cancel();
  }

 private:
  Job& here() const {
    if (!job_->is_here()) raise(unavailable("the job runs in the process that this one was forked from"));
    return *job_;
  }

  // Without Python's lock while nothing comes. What a signal's handler raises ends what runs.
  template <class Take>
  auto wait_for(Take take, std::optional<double> timeout_s) -> decltype(take(0.0)) {
    here();
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    while (true) {
      const double passed_s = std::chrono::duration<double>(Clock::now() - start).count();
      const double left_s = timeout_s.has_value() ? std::max(0.0, *timeout_s - passed_s) : kPollSeconds;
      decltype(take(0.0)) news;
      {
        const Unlocked unlocked;
        news = take(std::min(left_s, kPollSeconds));
      }
      if (news.has_value() || job_->is_done()) return news;
      if (PyErr_CheckSignals() != 0) {
        job_->cancel();
        throw py::error_already_set();
      }
      if (timeout_s.has_value() && left_s <= kPollSeconds) return std::nullopt;
    }
  }

  std::unique_ptr<Job> job_;
};

}  // namespace bass::python
