#include "cli/results_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "cli/asked_options.h"
#include "cli/report.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kResultsFlag = "--results";
constexpr std::string_view kLineBegin = "{\"index\":";  // of every line that prompt_json gave

/// A deadline's choice has what there was of it, if there was anything.
bool has_result(const ChoiceResult& choice) {
  if (choice.finish_reason == FinishReason::kDeadline) return choice.n_tokens > 0;
  return choice.finish_reason != FinishReason::kCancelled && choice.finish_reason != FinishReason::kError;
}

/// The beginning of a line that prompt_json gave, and not all of it.
bool is_cut_line(std::string_view text) {
  if (!are_alike(text, kLineBegin) || Json::accept(text)) return false;
  text.remove_prefix(std::min(text.size(), kLineBegin.size()));
  text.remove_prefix(std::min(text.size(), text.find_first_not_of("0123456789")));
  return are_alike(text, ",\"id\":") || are_alike(text, ",\"request\":");
}

/// Of a prompt with its options, as far as they tell what is sampled (so without speculation, which is lossless, and a
/// time budget), and of the model: 16 hexadecimal digits of a SHA-256.
std::string request_digest(const GenerateOptions& options, const std::string& model, const PromptSpec& prompt) {
  Json json{{"model", model}};
  json["prompt"] = prompt.request.prompt;
  for (const ChatMessage& message : prompt.request.messages) {
    Json said{message.role, message.content};
    const std::array more{message.tool_calls, message.tool_call_id, message.name};
    if (std::ranges::any_of(more, [](const std::string& text) { return !text.empty(); })) said.push_back(more);
    if (!message.reasoning_content.empty()) said.push_back({{"reasoning_content", message.reasoning_content}});
    json["messages"].push_back(std::move(said));
  }
  if (!prompt.request.prompt_tokens.empty()) json["prompt_tokens"] = prompt.request.prompt_tokens;
  if (prompt.id.has_value()) json["id"] = *prompt.id;
  json.update(asked_options(options, prompt.request));
  return short_digest(json);
}

}  // namespace

Result<std::unique_ptr<ResultsFile>> ResultsFile::open(const std::string& path, Output* out) {
  std::unique_ptr<ResultsFile> results(new ResultsFile);
  const auto take = [file = results.get()](std::string_view text, int number) { return file->take_line(text, number); };
  BASS_ASSIGN_OR_RETURN(results->file_, LineFile::open({kResultsFlag, take, is_cut_line}, path, out));
  return results;
}

Status ResultsFile::take_line(std::string_view text, int number) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* key, bool (Json::*is_kind)() const) {
    return json.is_object() && json.contains(key) && (json[key].*is_kind)();
  };
  if (!has("index", &Json::is_number_unsigned) || !has("request", &Json::is_string) ||
      !has("choices", &Json::is_array)) {
    return invalid_argument(
        "is no line that --results has written; name another file, or remove the line (its prompt is then run again)");
  }
  lines_.push_back({number, json["index"].get<int64_t>(), json["request"].get<std::string>()});
  return ok_status();
}

Result<int> ResultsFile::skip_done(const GenerateOptions& options, const std::string& model,
                                   std::vector<PromptSpec>* prompts) {
  for (const PromptSpec& prompt : *prompts) request_of_[prompt.index] = request_digest(options, model, prompt);
  BASS_ASSIGN_OR_RETURN(const std::unordered_set<int> done, find_done(*prompts));
  BASS_RETURN_IF_ERROR(file_->mend_end());
  lines_ = {};
  return static_cast<int>(
      std::erase_if(*prompts, [&](const PromptSpec& prompt) { return done.contains(prompt.index); }));
}

// Lines whose prompts have the place that they had come first: of equal prompts each has one line.
Result<std::unordered_set<int>> ResultsFile::find_done(const std::vector<PromptSpec>& prompts) const {
  std::unordered_set<int> done;
  std::vector<Line> others;
  for (const Line& line : lines_) {
    const std::string* request = request_at(line.index);
    const bool is_there = request != nullptr && *request == line.request;
    if (!is_there || !done.insert(static_cast<int>(line.index)).second) others.push_back(line);
  }
  std::unordered_map<std::string_view, std::vector<int>>
      moved;  // [request], of prompts with an id that have no line yet
  for (const PromptSpec& prompt : prompts) {
    if (prompt.id.has_value() && !done.contains(prompt.index))
      moved[request_of_.at(prompt.index)].push_back(prompt.index);
  }
  for (const Line& line : others) {
    const auto places = moved.find(line.request);
    if (places == moved.end()) {
      BASS_RETURN_IF_ERROR(check_line(line, prompts.back().index));
    } else if (!places->second.empty()) {
      done.insert(places->second.back());
      places->second.pop_back();
    }
  }
  return done;
}

const std::string* ResultsFile::request_at(int64_t index) const {
  const auto request = request_of_.find(static_cast<int>(std::min<int64_t>(index, INT32_MAX)));
  return request == request_of_.end() ? nullptr : &request->second;
}

/// Of a line of no prompt that has moved.
Status ResultsFile::check_line(const Line& line, int last_index) const {
  const std::string* request = request_at(line.index);
  if (request == nullptr) {
    return invalid_argument(fmt::format("{}: is of prompt {}, which is not there (the last is {}); name another file",
                                        file_->place(line.number), line.index, last_index));
  }
  if (*request == line.request) return ok_status();  // a second one
  return invalid_argument(fmt::format(
      "{}: prompt {} was another one then, had other options (a --seed?) or was another model's; give "
      "those of that run, or name another file (prompts may be moved where they have an \"id\" and no --seed)",
      file_->place(line.number), line.index));
}

Result<bool> ResultsFile::append(const PromptResult& prompt, bool shows_origins) {
  if (!std::ranges::all_of(prompt.choices, has_result)) return false;
  const auto request = request_of_.find(prompt.index);
  BASS_CHECK(request != request_of_.end());
  BASS_RETURN_IF_ERROR(file_->append(json_line(prompt_json(prompt, shows_origins, request->second))));
  return true;
}

}  // namespace bass
