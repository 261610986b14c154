// The Python module bass._engine: what python/bass is written on. Options and prompts come as JSON, so that the options
// table says the same of the same mistake as on the command line; errors leave as the exceptions of bass.errors.
#include <cxxabi.h>
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/scoring.h"
#include "cli/shipped_draft.h"
#include "engine/options.h"
#include "engine/user_json.h"
#include "python/job.h"

namespace bass::python {
namespace {

namespace py = pybind11;
using Json = nlohmann::ordered_json;

constexpr double kPollSeconds = 0.05;  // between looks at Python's signals

// --- errors

const char* exception_name(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return "InvalidArgumentError";
    case StatusCode::kInvalidFile:
      return "InvalidFileError";
    case StatusCode::kResourceExhausted:
      return "ResourceExhaustedError";
    case StatusCode::kCancelled:
      return "CancelledError";
    case StatusCode::kUnavailable:
      return "UnavailableError";
    case StatusCode::kInternal:
    case StatusCode::kOk:
      break;
  }
  return "InternalError";
}

// Messages name options as the command line spells them: "--kv-memory" is kv_memory here.
std::string with_python_names(std::string message) {
  for (const Option& option : options_table()) {
    const std::string flag = option_flag(option);
    for (size_t at = 0; (at = message.find(flag, at)) != std::string::npos; at += option.name.size()) {
      const size_t end = at + flag.size();
      const bool is_longer =
          end < message.size() && (std::isalnum(static_cast<unsigned char>(message[end])) != 0 || message[end] == '-');
      if (flag.starts_with("--") && !is_longer) message.replace(at, flag.size(), option.name);
    }
  }
  constexpr std::string_view kDraftOption = "-d DRAFT.gguf";
  if (const size_t at = message.find(kDraftOption); at != std::string::npos) {
    message.replace(at, kDraftOption.size(), "draft=");
  }
  return message;
}

// Of pybind11's exceptions, as that is how it leaves C++.
[[noreturn]] void raise(const Status& status) {
  const py::object type = py::module_::import("bass.errors").attr(exception_name(status.code()));
  PyErr_SetString(type.ptr(), with_python_names(status.message()).c_str());
  throw py::error_already_set();
}

void raise_if_error(const Status& status) {
  if (!status.ok()) raise(status);
}

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

// --- options

// The table's rows, so that Python can list them.
std::string options_json() {
  Json rows = Json::array();
  for (const Option& option : options_table()) {
    rows.push_back({{"name", option.name},
                    {"group", group_title(option.group)},
                    {"is_per_request", option.is_per_request},
                    {"value", option.value_name},
                    {"default", option_default(option)},
                    {"range", option.range},
                    {"help", option.help}});
  }
  return rows.dump();
}

// json: an object of names of the table and values
Status set_options(const std::string& json, GenerateOptions* options) {
  BASS_ASSIGN_OR_RETURN(const Json object, parse_user_json(json));
  for (const auto& [name, value] : object.items()) {
    const Option* option = find_option(name);
    if (option == nullptr) return invalid_argument(fmt::format("\"{}\": there is no such option", name));
    BASS_RETURN_IF_ERROR(set_option_from_json(*option, nlohmann::json(value), options));
  }
  return check_options(*options);
}

// --- Python's lock

// Given back while the engine works. Where the interpreter ends meanwhile, Python up to 3.13 ends a thread that wants
// the lock by unwinding its stack, which pybind11's own guard, a destructor, turns into the end of the process. Here
// such a thread sleeps on until the process has ended, as it does since 3.14.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  // Runs f with the lock.
  template <class F>
  auto locked(F f) {
    lock();
    const auto result = f();
    state_ = PyEval_SaveThread();
    return result;
  }

 private:
  void lock() noexcept {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      while (true) pause();
    }
  }

  PyThreadState* state_;
};

// Whether a signal's handler has raised something. Asked by what works without the lock, as often as it likes.
class Signals {
 public:
  explicit Signals(Unlocked* unlocked) : unlocked_(unlocked) {}

  bool operator()() {
    if (has_raised_) return true;
    const auto now = Clock::now();
    if (now - asked_at_ < kInterval) return false;
    asked_at_ = now;
    has_raised_ = unlocked_->locked([] { return PyErr_CheckSignals() != 0; });
    return has_raised_;
  }
  // With the lock.
  void raise_if_any() const {
    if (has_raised_) throw py::error_already_set();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::duration<double> kInterval{kPollSeconds};

  Unlocked* unlocked_;
  Clock::time_point asked_at_ = Clock::now();
  bool has_raised_ = false;
};

// What work() gives, which runs without the lock and may ask is_stopped().
template <class Work>
auto interruptibly(Work work) -> decltype(work(std::declval<const std::function<bool()>&>())) {
  std::optional<Signals> signals;
  auto result = [&] {
    Unlocked unlocked;
    signals.emplace(&unlocked);
    return work([&] { return (*signals)(); });
  }();
  signals->raise_if_any();
  return result;
}

// --- jobs

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
    Json json = prompt_json(ended->result, /*shows_origins=*/false);
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

// --- the engine

// Its members are read and written with Python's lock.
class PyEngine {
 public:
  // options: JSON of an object; those of requests are what every call starts from
  explicit PyEngine(const std::string& options) {
    raise_if_error(set_options(options, &options_));
    use_shipped_draft(&options_);
    Result<NamedEngine> named = [&] {
      const Unlocked unlocked;
      return load_named_engine(options_);
    }();
    raise_if_error(named.status());
    engine_ = std::make_shared<OwnedEngine>(std::move(named->engine));
    for (std::string& note : named->notes) notes_.push_back(with_python_names(std::move(note)));
  }
  ~PyEngine() { close(); }
  PyEngine(const PyEngine&) = delete;
  PyEngine& operator=(const PyEngine&) = delete;

  // Cancels what runs. The engine ends when nothing is left to be told of its jobs.
  void close() {
    std::shared_ptr<OwnedEngine> engine = std::move(engine_);
    if (engine == nullptr) return;
    const Unlocked unlocked;
    if (engine->is_here()) engine->close();
    engine.reset();
  }

  [[nodiscard]] bool is_open() const { return engine_ != nullptr; }
  [[nodiscard]] std::vector<std::string> notes() const { return notes_; }

  // prompts: a JSON object each, as a line of a prompts file; options: JSON of an object, beneath these; origins: what
  // messages call each prompt, empty for one alone
  std::unique_ptr<PyJob> submit(const std::vector<std::string>& prompts, const std::string& options,
                                const std::vector<std::string>& origins) const {
    auto engine = here();
    auto job = interruptibly([&](const std::function<bool()>& is_stopped) -> Result<std::unique_ptr<Job>> {
      const std::shared_ptr<OwnedEngine> user = std::move(engine);  // the last one ends the engine, without the lock
      BASS_ASSIGN_OR_RETURN(std::vector<PromptSpec> specs, read_specs(prompts, options, origins));
      return Job::submit(user, std::move(specs), is_stopped);
    });
    return std::make_unique<PyJob>(value_of(std::move(job)));
  }

  [[nodiscard]] std::vector<TokenId> tokenize(const std::string& text, bool add_special, bool parse_special) const {
    auto engine = here();
    return value_of([&] {
      const Unlocked unlocked;
      const std::shared_ptr<OwnedEngine> user = std::move(engine);
      return user->engine().tokenize(text, add_special, parse_special);
    }());
  }

  [[nodiscard]] py::bytes detokenize(const std::vector<TokenId>& tokens) const {
    auto engine = here();
    return value_of([&] {
      const Unlocked unlocked;
      const std::shared_ptr<OwnedEngine> user = std::move(engine);
      return user->engine().detokenize(tokens);
    }());
  }

  // JSON of a list. prompts, origins: as those of submit
  [[nodiscard]] std::string score(const std::vector<std::string>& prompts,
                                  const std::vector<std::string>& origins) const {
    auto engine = here();
    auto scores = interruptibly([&](const std::function<bool()>& is_stopped) -> Result<std::vector<Score>> {
      const std::shared_ptr<OwnedEngine> user = std::move(engine);  // the last one ends the engine, without the lock
      BASS_ASSIGN_OR_RETURN(std::vector<PromptSpec> specs, read_specs(prompts, "{}", origins));
      return score_specs(user.get(), std::move(specs), is_stopped);
    });
    raise_if_error(scores.status());
    Json list = Json::array();
    for (const Score& score : scores.value()) list.push_back(score_json(score));
    return list.dump();
  }

  [[nodiscard]] std::string info() const {
    const auto engine = here();
    const auto of = [](const ModelInfo& info) {
      return Json{{"path", info.path},
                  {"name", info.name},
                  {"architecture", info.architecture},
                  {"n_params", info.n_params},
                  {"vocab_size", info.vocab_size},
                  {"context_len", info.context_len},
                  {"is_synthetic", info.is_synthetic}};
    };
    const std::optional<ModelInfo> draft = engine->engine().draft_info();
    const EngineOptions& options = engine->engine().options();
    return json_line({{"model", of(engine->engine().model_info())},
                      {"draft", draft.has_value() ? of(*draft) : Json(nullptr)},
                      {"max_batch", options.max_batch},
                      {"threads", options.n_threads},
                      {"context", options.context_len.value_or(0)},
                      {"instruction_set", engine->engine().isa_name()},
                      {"device", options.device}});
  }

  [[nodiscard]] std::string stats() const {
    const EngineStats stats = here()->engine().stats();
    return json_line({{"prefill_s", stats.prefill_s},
                      {"decode_s", stats.decode_s},
                      {"prefill_tokens", stats.prefill_tokens},
                      {"cached_tokens", stats.cached_tokens},
                      {"decode_tokens", stats.decode_tokens},
                      {"steps", stats.steps},
                      {"speculation",
                       {{"rounds", stats.speculation.rounds},
                        {"drafted", stats.speculation.drafted},
                        {"accepted", stats.speculation.accepted}}}});
  }

 private:
  [[nodiscard]] std::shared_ptr<OwnedEngine> here() const {
    if (engine_ == nullptr) raise(unavailable("the engine was closed; make another one"));
    if (!engine_->is_here()) {
      raise(
          unavailable("the engine belongs to the process that this one was forked from; make one here, or start "
                      "processes by \"spawn\""));
    }
    return engine_;
  }

  [[nodiscard]] Result<std::vector<PromptSpec>> read_specs(const std::vector<std::string>& prompts,
                                                           const std::string& options,
                                                           const std::vector<std::string>& origins) const {
    GenerateOptions of_all = options_;
    BASS_RETURN_IF_ERROR(set_options(options, &of_all));
    std::vector<PromptSpec> specs(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Status status = read_prompt(prompts[i], of_all, static_cast<int>(i), origins[i], &specs[i]);
      specs[i].is_line = !origins[i].empty();
      BASS_RETURN_IF_ERROR(with_origin(status, specs[i]));
    }
    return specs;
  }

  static Result<std::vector<Score>> score_specs(OwnedEngine* engine, std::vector<PromptSpec> specs,
                                                const std::function<bool()>& is_stopped) {
    std::vector<Request> requests;
    const uint64_t job = engine->next_job();
    const auto must_stop = [&] { return is_stopped() || engine->is_closed(); };
    for (PromptSpec& spec : specs) {
      if (must_stop()) return stopped(engine);
      make_scoring(&spec.request);
      spec.request.job = job;
      BASS_RETURN_IF_ERROR(with_origin(engine->engine().check(spec.request), spec));
      requests.push_back(std::move(spec.request));
    }
    Result<std::vector<Score>> scores = score_prompts(&engine->engine(), std::move(requests), must_stop);
    return scores.ok() || !must_stop() ? scores : stopped(engine);
  }
  static Status stopped(OwnedEngine* engine) {
    if (engine->is_closed()) return unavailable("the engine was closed; make another one");
    return {StatusCode::kCancelled, "interrupted"};
  }

  GenerateOptions options_;
  std::shared_ptr<OwnedEngine> engine_;  // null: closed
  std::vector<std::string> notes_;
};

// The program, for the script `bass` of a Python environment: arguments with the program's name in front.
int run_program(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const Unlocked unlocked;
  install_signal_handlers();
  return run_bass(static_cast<int>(arguments.size()), argv.data());
}

}  // namespace

PYBIND11_MODULE(_engine, module) {
  module.def("options_json", options_json);
  module.def("run_program", run_program, py::arg("arguments"));
  py::class_<PyJob>(module, "Job")
      .def("next_ended", &PyJob::next_ended, py::arg("timeout_s"))
      .def("next_piece", &PyJob::next_piece, py::arg("timeout_s"))
      .def("is_done", &PyJob::is_done)
      .def("cancel", &PyJob::cancel);
  py::class_<PyEngine>(module, "Engine")
      .def(py::init<std::string>(), py::arg("options"))
      .def("close", &PyEngine::close)
      .def("is_open", &PyEngine::is_open)
      .def("notes", &PyEngine::notes)
      .def("submit", &PyEngine::submit, py::arg("prompts"), py::arg("options"), py::arg("origins"))
      .def("tokenize", &PyEngine::tokenize, py::arg("text"), py::arg("add_special"), py::arg("parse_special"))
      .def("detokenize", &PyEngine::detokenize, py::arg("tokens"))
      .def("score", &PyEngine::score, py::arg("prompts"), py::arg("origins"))
      .def("info", &PyEngine::info)
      .def("stats", &PyEngine::stats);
}

}  // namespace bass::python
