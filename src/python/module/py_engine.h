// bass._engine.Engine: options and prompts as JSON, so that the options table says the same of the same mistake as on
// the command line.
#pragma once

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cli/engine_loading.h"
#include "cli/report.h"
#include "cli/scoring.h"
#include "cli/shipped_draft.h"
#include "engine/options.h"
#include "python/module/py_job.h"
#include "text/user_json.h"

namespace bass::python {

// json: an object of names of the table and values
inline Status set_options(const std::string& json, GenerateOptions* options) {
  BASS_ASSIGN_OR_RETURN(const nlohmann::ordered_json object, parse_user_json(json));
  for (const auto& [name, value] : object.items()) {
    const Option* option = find_option(name);
    if (option == nullptr) return invalid_argument(fmt::format("\"{}\": there is no such option", name));
    BASS_RETURN_IF_ERROR(set_option_from_json(*option, value, options));
  }
  return check_options(*options);
}

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

  // Of each prompt; prompts, origins: as those of submit
  [[nodiscard]] std::vector<std::vector<TokenId>> prompt_tokens(const std::vector<std::string>& prompts,
                                                                const std::vector<std::string>& origins) const {
    auto engine = here();
    return value_of([&]() -> Result<std::vector<std::vector<TokenId>>> {
      const Unlocked unlocked;
      const std::shared_ptr<OwnedEngine> user = std::move(engine);
      BASS_ASSIGN_OR_RETURN(const std::vector<PromptSpec> specs, read_specs(prompts, "{}", origins));
      std::vector<std::vector<TokenId>> ids(specs.size());
      for (size_t i = 0; i < specs.size(); ++i) {
        Result<std::vector<TokenId>> tokens = user->engine().prompt_tokens(specs[i].request);
        BASS_RETURN_IF_ERROR(with_origin(tokens.status(), specs[i]));
        ids[i] = std::move(tokens).value();
      }
      return ids;
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
    auto list = nlohmann::ordered_json::array();
    for (const Score& score : scores.value()) list.push_back(score_json(score));
    return list.dump();
  }

  [[nodiscard]] std::string info() const {
    const auto engine = here();
    const auto of = [](const ModelInfo& info) {
      return nlohmann::ordered_json{{"path", info.path},
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
                      {"draft", draft.has_value() ? of(*draft) : nlohmann::ordered_json(nullptr)},
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
    if (engine_ == nullptr) raise(OwnedEngine::closed());
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
    const uint64_t job = engine->next_job();
    for (PromptSpec& spec : specs) spec.request.job = job;
    Result<std::vector<Score>> scores =
        score_prompts(&engine->engine(), std::move(specs), [&] { return is_stopped() || engine->is_closed(); });
    if (!scores.ok() && engine->is_closed()) return OwnedEngine::closed();
    return scores;
  }

  GenerateOptions options_;
  std::shared_ptr<OwnedEngine> engine_;  // null: closed
  std::vector<std::string> notes_;
};

}  // namespace bass::python
