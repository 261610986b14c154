#include "base/check.h"
#include "cli/report.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

std::string_view origin_name(TokenOrigin origin) {
  switch (origin) {
    case TokenOrigin::kAccepted:
      return "accepted";
    case TokenOrigin::kCorrection:
      return "correction";
    case TokenOrigin::kBonus:
      return "bonus";
    case TokenOrigin::kRegular:
      break;
  }
  return "regular";
}

Json origins_json(const ChoiceResult& choice) {
  Json origins = Json::array();
  for (const TokenInfo& token : choice.tokens) origins.push_back(origin_name(token.origin));
  return origins;
}

// A list for each token, of [id, log-probability].
Json top_logprobs_json(const ChoiceResult& choice) {
  const size_t n_top = choice.top_logprobs.size() / choice.tokens.size();
  Json of_tokens = Json::array();
  for (auto top = choice.top_logprobs.begin(); top != choice.top_logprobs.end();) {
    Json& of_token = of_tokens.emplace_back(Json::array());
    for (size_t i = 0; i < n_top; ++i, ++top) {
      if (top->id >= 0) of_token.push_back(Json::array({top->id, top->logprob}));
    }
  }
  return of_tokens;
}

Json choice_json(const ChoiceResult& choice, bool shows_origins) {
  Json ids = Json::array();
  Json logprobs = Json::array();
  for (const TokenInfo& token : choice.tokens) {
    ids.push_back(token.id);
    logprobs.push_back(token.logprob);
  }
  Json json{{"index", choice.index},
            {"rank", choice.rank},
            {"text", choice.text},
            {"token_ids", std::move(ids)},
            {"logprobs", std::move(logprobs)},
            {"mean_logprob", nullable(choice.mean_logprob)},
            {"finish_reason", to_string(choice.finish_reason)}};
  if (!choice.error.ok()) json["error"] = choice.error.message();
  if (!choice.top_logprobs.empty()) json["top_logprobs"] = top_logprobs_json(choice);
  if (shows_origins) json["origins"] = origins_json(choice);
  return json;
}

Json timing_json(const GenerationResult& result, const Summary& summary) {
  Json json{{"load_s", result.load_s},
            {"prefill_s", result.stats.prefill_s},
            {"decode_s", result.stats.decode_s},
            {"total_s", result.total_s},
            {"tokens_per_s", summary.tokens_per_s},
            {"decode_tokens_per_s", summary.decode_tokens_per_s},
            {"ms_per_token",
             {{"first", nullable(summary.latency.first_ms)},
              {"last", nullable(summary.latency.last_ms)},
              {"all", nullable(summary.latency.all_ms)}}}};
  if (const GraphCounts& graphs = result.stats.graphs; graphs.n_passes() > 0) {
    json["graphs"] = {{"replayed", graphs.replayed},
                      {"recorded", graphs.recorded},
                      {"launched_one_by_one", graphs.launched_one_by_one}};
  }
  return json;
}

Json speculation_json(const Summary& summary) {
  Json histogram = Json::object();
  for (int len = 0; len <= summary.longest_draft; ++len) {
    histogram[std::to_string(len)] = summary.speculation.draft_length_histogram[static_cast<size_t>(len)];
  }
  return {{"rounds", summary.speculation.rounds},
          {"drafted", summary.speculation.drafted},
          {"accepted", summary.speculation.accepted},
          {"acceptance_rate", nullable(summary.acceptance_rate)},
          {"mean_accepted_len", nullable(summary.mean_accepted_len)},
          {"tokens_per_round", nullable(summary.tokens_per_round)},
          {"draft_length_histogram", std::move(histogram)}};
}

}  // namespace

nlohmann::ordered_json nullable(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

nlohmann::ordered_json prompt_json(const PromptResult& prompt, bool shows_origins, std::string_view request) {
  Json json{{"index", prompt.index}};
  if (prompt.id.has_value()) json["id"] = *prompt.id;
  if (!request.empty()) json["request"] = request;
  json["n_prompt_tokens"] = prompt.n_prompt_tokens;
  json["choices"] = Json::array();
  for (const ChoiceResult& choice : prompt.choices) json["choices"].push_back(choice_json(choice, shows_origins));
  return json;
}

Status give_result_json(const GenerationResult& result, bool shows_origins, const nlohmann::ordered_json& explanation,
                        const std::function<Status(std::string_view)>& take) {
  std::string text = json_text(
      Json{{"model", result.model}, {"draft", result.draft.has_value() ? Json(*result.draft) : Json(nullptr)}});
  text.back() = ',';
  BASS_RETURN_IF_ERROR(take(text + "\"prompts\":["));
  std::string_view separator;
  for (const PromptResult& prompt : result.prompts) {
    BASS_RETURN_IF_ERROR(take(separator));
    BASS_RETURN_IF_ERROR(take(json_text(prompt_json(prompt, shows_origins))));
    separator = ",";
  }
  const Summary summary = summarise(result);
  Json rest{{"usage",
             {{"prompt_tokens", summary.prompt_tokens},
              {"completion_tokens", summary.completion_tokens},
              {"total_tokens", summary.prompt_tokens + summary.completion_tokens}}},
            {"timing", timing_json(result, summary)},
            {"speculation", speculation_json(summary)}};
  if (!explanation.is_null()) rest["speculation"]["explanation"] = explanation;
  text = json_line(rest);
  text.front() = ',';
  return take("]" + text);
}

}  // namespace bass
