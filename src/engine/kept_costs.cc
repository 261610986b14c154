#include "engine/kept_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "engine/json_cache.h"
#include "speculation/step_prediction.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint16_t kTrust = 4;            // measurements that an entry of a file counts as
constexpr size_t kNameLen = 16;           // hexadecimal digits of a file's name
constexpr double kMinStepSeconds = 1e-9;  // of a step: less and more is no measurement
constexpr double kMaxStepSeconds = 3600;
constexpr double kMaxTokenSeconds = 0.01;  // of attention to a token
constexpr float kNearLevel = 0.3f;         // as far from the level (logarithm) as a size counts

bool is_cost(const Json& value) {
  return value.is_number() && value.get<double>() >= kMinStepSeconds && value.get<double>() < kMaxStepSeconds;
}

// A step is never dearer than one of more rows: what is so was measured while other programs had the processor, and
// would look like a reason to draft (a bound by isotonic costs). begin, end: of values by size; 0 is none
void bound_by_larger(float* begin, float* end) {
  float least = std::numeric_limits<float>::infinity();
  while (end != begin) {
    float& value = *--end;
    if (value > 0) least = value = std::min(value, least);
  }
}

void read_rows(const Json& rows, StepCosts* costs) {
  if (!rows.is_array()) return;
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() != 2 || !row[0].is_number_integer() || !is_cost(row[1])) continue;
    const auto n_rows = row[0].get<int64_t>();
    if (n_rows < 1 || n_rows > StepCosts::kMaxRows) continue;
    costs->step_s[n_rows] = row[1].get<float>();
    costs->n_measured[n_rows] = kTrust;
    costs->max_rows_seen = std::max(costs->max_rows_seen, static_cast<int32_t>(n_rows));
  }
}

void read_attention(const Json& json, const Json& free_rows, StepCosts* costs) {
  std::array<double, AttentionFit::kTerms> seconds{};
  if (!json.is_array() || json.size() != seconds.size()) return;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (!json[i].is_number() || !(json[i].get<double>() >= 0) || json[i].get<double>() > kMaxTokenSeconds) return;
    seconds[i] = json[i].get<double>();
  }
  const bool is_known = free_rows.is_number_integer();  // files of earlier versions have none
  costs->attention = known_attention_costs(
      seconds,
      is_known ? static_cast<int>(std::clamp<int64_t>(free_rows.get<int64_t>(), 1, AttentionCosts::kFits)) : 1);
}

// As they were written.
StepCosts read_file(const std::string& path, const std::string& key) {
  StepCosts costs;
  const Json json = read_json_cache(path);
  if (json.value("key", Json()) != Json(key)) return costs;
  read_rows(json.value("step_seconds", Json()), &costs);
  read_attention(json.value("attention_seconds", Json()), json.value("attention_free_rows", Json()), &costs);
  const Json draft_steps = json.value("draft_step_seconds", Json());
  if (!draft_steps.is_array() || draft_steps.size() != StepCosts::kDraftSizes) return costs;
  for (size_t size = 0; size < draft_steps.size(); ++size) {
    if (!is_cost(draft_steps[size])) continue;
    costs.draft_step_s[size] = draft_steps[size].get<float>();
  }
  if (const Json catch_up = json.value("catch_up_seconds", Json()); is_cost(catch_up)) {
    costs.catch_up_s = catch_up.get<float>();
  }
  return costs;
}

// How many times as long steps take in this run as the file has them: of most sizes that both know. The mean of what
// lies near the median, as the noise of one run is then made good by the next: that of medians adds up.
float level_over_file(const StepCosts& costs, const StepCosts& file) {
  std::vector<float> logs;
  for (int n_rows = 1; n_rows <= std::min(costs.max_rows_seen, file.max_rows_seen); ++n_rows) {
    if (costs.last_measured[n_rows] == 0 || file.step_s[n_rows] <= 0) continue;
    logs.push_back(std::log(costs.step_s[n_rows] / file.step_s[n_rows]));
  }
  if (logs.empty()) return 1;
  const auto middle = logs.begin() + static_cast<ptrdiff_t>(logs.size() / 2);
  std::nth_element(logs.begin(), middle, logs.end());
  const float median = *middle;
  float sum = 0;
  for (const float log : logs) sum += std::clamp(log - median, -kNearLevel, kNearLevel);
  return std::exp(median + sum / static_cast<float>(logs.size()));
}

}  // namespace

std::string kept_costs_path(const std::string& folder, const std::string& key) {
  Digest digest = Digest::sha256();
  digest.update(key);
  return fmt::format("{}/{}.json", folder, digest.finish().substr(0, kNameLen));
}

StepCosts read_kept_costs(const std::string& path, const std::string& key) {
  StepCosts costs = read_file(path, key);
  bound_by_larger(costs.step_s, costs.step_s + StepCosts::kMaxRows + 1);
  bound_by_larger(costs.draft_step_s, costs.draft_step_s + StepCosts::kDraftSizes);
  const auto pass_s = static_cast<float>(predicted_draft_seconds(costs, 1, 1));
  costs.catch_up_s = std::min(costs.catch_up_s, pass_s);  // as where it is learnt
  return costs;
}

// What the file has of other sizes is brought to the level of this run: sizes that were measured on fast and on slow
// days would have a shape that no day has. As it was written, not as it is read: sizes that are bounded by larger ones
// would move the level by a little with each run, and always the same way.
void keep_costs(const StepCosts& costs, const std::string& path, const std::string& key) {
  const StepCosts others = read_file(path, key);
  const float level = level_over_file(costs, others);
  Json rows = Json::array();
  for (int n_rows = 1; n_rows <= std::max(costs.max_rows_seen, others.max_rows_seen); ++n_rows) {
    const bool is_others = costs.last_measured[n_rows] == 0 && others.n_measured[n_rows] > 0;
    const StepCosts& from = is_others ? others : costs;
    if (from.n_measured[n_rows] > 0) rows.push_back({n_rows, (is_others ? level : 1) * from.step_s[n_rows]});
  }
  Json json{{"key", key}, {"step_seconds", std::move(rows)}};
  Json draft_steps = Json::array();
  for (int size = 0; size < StepCosts::kDraftSizes; ++size) {
    const bool is_measured = costs.recent_drafts[size].n > 0 || others.draft_step_s[size] <= 0;
    draft_steps.push_back(is_measured ? costs.draft_step_s[size] : level * others.draft_step_s[size]);
  }
  json["draft_step_seconds"] = std::move(draft_steps);
  json["catch_up_seconds"] =
      costs.recent_catch_ups.n > 0 || others.catch_up_s <= 0 ? costs.catch_up_s : level * others.catch_up_s;
  json["attention_seconds"] = costs.attention.fit().seconds;
  json["attention_free_rows"] = costs.attention.free_rows();
  write_json_cache(path, json);
}

}  // namespace bass
