#include "cli/batch_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "cli/asked_options.h"
#include "cli/bad_lines.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOutputFlag = "-o";
constexpr std::string_view kIdBegin = "batch_req_";
constexpr int kAnswered = 200;

Result<ApiEndpoint> read_url(const Json& call) {
  const Json url = call.value("url", Json());
  const EndpointWords* words = url.is_string() ? find_endpoint(url.get_ref<const std::string&>()) : nullptr;
  if (words != nullptr) return words->endpoint;
  return invalid_argument(
      fmt::format("\"url\" {}: must be \"/v1/chat/completions\", \"/v1/responses\" or \"/v1/completions\"",
                  url.is_null() ? "is missing" : json_text(url)));
}

Result<BatchCall> read_call(const std::string& line) {
  BASS_ASSIGN_OR_RETURN(const Json call, parse_user_json(line));
  if (!call.is_object() || !call.contains("custom_id") || !call["custom_id"].is_string()) {
    return invalid_argument(
        R"(must be an object like {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}})");
  }
  if (const Json method = call.value("method", Json("POST")); method != "POST")
    return invalid_argument(fmt::format("\"method\" {}: must be \"POST\"", json_text(method)));
  BatchCall read{.custom_id = call["custom_id"].get<std::string>()};
  BASS_ASSIGN_OR_RETURN(read.endpoint, read_url(call));
  if (!call.contains("body") || !call["body"].is_object()) return invalid_argument("\"body\": must be an object");
  if (const Json model = call["body"].value("model", Json()); model.is_string()) read.model = model.get<std::string>();
  read.is_timed = !call["body"].value("time_budget", Json()).is_null();
  read.body = json_text(call["body"]);
  return read;
}

std::string digest_of(const BatchCall& call, const Json& asked, const std::string& model) {
  return short_digest({{"model", model},
                       {"custom_id", call.custom_id},
                       {"endpoint", words_of(call.endpoint).name},
                       {"body", call.body},
                       {"defaults", asked}});
}

/// What a call may be refused by that is not the call: which drafts there are, how long texts may become, the device.
Json engine_options(const GenerateOptions& options) {
  Json json = Json::object();
  for (const char* name : {"draft", "context", "kv_memory", "device"})
    json[name] = option_json(*find_option(name), options);
  return json;
}

/// The beginning of a line of answers, and not all of it.
bool is_cut_answer(std::string_view text) {
  return are_alike(text, fmt::format("{{\"id\":\"{}", kIdBegin)) && !Json::accept(text);
}

}  // namespace

Result<std::vector<BatchCall>> read_batch_calls(const std::string& name, const std::string& text) {
  std::vector<BatchCall> calls;
  std::unordered_map<std::string, std::string> origin_of;
  const auto read = [&](const std::string& line, const std::string& origin) -> Status {
    BASS_ASSIGN_OR_RETURN(BatchCall call, read_call(line));
    call.origin = origin;
    const auto [before, is_new] = origin_of.emplace(call.custom_id, origin);
    if (!is_new) {
      return invalid_argument(fmt::format("\"custom_id\" {}: is that of {}, too; each call needs one of its own",
                                          json_text(call.custom_id), before->second));
    }
    calls.push_back(std::move(call));
    return ok_status();
  };
  BASS_RETURN_IF_ERROR(for_every_line(name, text, read));
  if (calls.empty()) return invalid_argument(fmt::format("{}: has no calls; it takes one a line", name));
  return calls;
}

Status check_models(const std::vector<BatchCall>& calls, const std::string& model) {
  const auto is_another = [&](const BatchCall& call) { return !call.model.empty() && call.model != model; };
  const auto found = std::ranges::find_if(calls, is_another);
  if (found == calls.end()) return ok_status();
  return invalid_argument(
      fmt::format("{}: \"model\" {}: is not the one that is there, {}; --model-name gives it that name", found->origin,
                  json_text(found->model), json_text(model)));
}

Result<std::unique_ptr<BatchAnswers>> BatchAnswers::open(const std::string& path, Output* out,
                                                         const std::vector<BatchCall>* calls,
                                                         const GenerateOptions& options, const std::string& model) {
  std::unique_ptr<BatchAnswers> answers(new BatchAnswers(calls));
  answers->engine_options_ = engine_options(options);
  const Json asked = asked_options(options, options.request);
  for (size_t i = 0; i < calls->size(); ++i) {
    answers->digests_.push_back(digest_of((*calls)[i], asked, model));
    answers->idx_of_.emplace((*calls)[i].custom_id, i);
  }
  const auto take = [self = answers.get()](std::string_view text, int /*number*/) { return self->take_line(text); };
  BASS_ASSIGN_OR_RETURN(answers->file_, LineFile::open({kOutputFlag, take, is_cut_answer}, path, out));
  BASS_RETURN_IF_ERROR(answers->file_->mend_end());
  return answers;
}

size_t BatchAnswers::n_answered() const { return static_cast<size_t>(std::ranges::count(is_answered_, true)); }

std::string BatchAnswers::id_of(size_t call_idx, bool is_answered) const {
  const std::string& digest = digests_[call_idx];
  return std::string(kIdBegin) + (is_answered ? digest : short_digest({{"call", digest}, {"engine", engine_options_}}));
}

std::string BatchAnswers::request_id(size_t call_idx) const {
  return fmt::format("{}{}", words_of((*calls_)[call_idx].endpoint).id_prefix, digests_[call_idx]);
}

Status BatchAnswers::take_line(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto text_of = [&](const char* key) {
    const Json value = json.is_object() ? json.value(key, Json()) : Json();
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const std::string id = text_of("id"), custom_id = text_of("custom_id");
  if (!id.starts_with(kIdBegin) || !json.contains("response")) {
    return invalid_argument(
        "is no line that this command has written; name another file, or remove the line (its call is then run again)");
  }
  const auto found = idx_of_.find(custom_id);
  if (found == idx_of_.end()) {
    return invalid_argument(fmt::format("is of call {}, which is not there; name another file", json_text(custom_id)));
  }
  const Json response = json["response"];
  const Json status = response.is_object() ? response.value("status_code", Json()) : Json();
  if (id != id_of(found->second, status == kAnswered)) {
    return invalid_argument(
        fmt::format("call {} was another one then, had other options or was another model's; give those of that "
                    "run, name another file, or remove the line",
                    json_text(custom_id)));
  }
  is_answered_[found->second] = true;
  return ok_status();
}

// The answer's body is JSON already.
Status BatchAnswers::append(const BatchAnswer& answer) {
  const size_t i = answer.call_idx;
  std::string_view body = answer.body;
  if (body.ends_with('\n')) body.remove_suffix(1);
  const std::string line = fmt::format(
      R"({{"id":"{}","custom_id":{},"response":{{"status_code":{},"request_id":"{}","body":{}}},"error":null}})"
      "\n",
      id_of(i, answer.http_status == kAnswered), json_text((*calls_)[i].custom_id), answer.http_status, request_id(i),
      body);
  BASS_RETURN_IF_ERROR(file_->append(with_escaped_line_ends(line)));
  is_answered_[i] = true;
  return ok_status();
}

}  // namespace bass
