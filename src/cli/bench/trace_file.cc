#include "cli/bench/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "cli/input.h"
#include "speculation/step_costs.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

// Four digits are more than a simulation can tell apart.
double rounded(float value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

Json numbers(const std::vector<DraftEvidence>& drafts, float DraftEvidence::*member) {
  Json list = Json::array();
  for (const DraftEvidence& draft : drafts) list.push_back(rounded(draft.*member));
  return list;
}

Json draft_json(const std::vector<DraftEvidence>& drafts) {
  Json json{{"p", numbers(drafts, &DraftEvidence::p)}};
  if (std::any_of(drafts.begin(), drafts.end(), [](const DraftEvidence& draft) { return draft.confidence != 1; }))
    json["confidence"] = numbers(drafts, &DraftEvidence::confidence);
  const bool is_one_hot =
      std::all_of(drafts.begin(), drafts.end(), [](const DraftEvidence& draft) { return draft.q == 1; });
  if (!is_one_hot ||
      std::any_of(drafts.begin(), drafts.end(), [](const DraftEvidence& draft) { return draft.overlap != draft.p; }))
    json["overlap"] = numbers(drafts, &DraftEvidence::overlap);
  if (is_one_hot) return json;
  json["q"] = numbers(drafts, &DraftEvidence::q);
  json["block"] = numbers(drafts, &DraftEvidence::block);
  return json;
}

// h_i of block.h: the residual of a one-hot draft is what p_i leaves without the next token.
void complete_one_hot(std::vector<DraftEvidence>* drafts) {
  double joint = 1;
  for (size_t i = 0; i < drafts->size(); ++i) {
    DraftEvidence& draft = (*drafts)[i];
    joint = next_joint(joint, draft.p, 1);
    const bool is_last = i + 1 == drafts->size();
    draft.q = 1;
    draft.overlap = draft.p;
    draft.block = static_cast<float>(is_last ? joint : block_acceptance(joint, joint * (1 - (*drafts)[i + 1].p)));
  }
}

bool read_numbers(const Json& json, float min, float DraftEvidence::*member, std::vector<DraftEvidence>* drafts) {
  if (!json.is_array() || json.size() != drafts->size()) return false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_number()) return false;
    const auto value = json[i].get<double>();
    if (!(value >= min && value <= 1.001)) return false;  // rounded sums of probabilities
    (*drafts)[i].*member = static_cast<float>(value);
  }
  return true;
}

bool read_draft(const Json& json, std::vector<DraftEvidence>* drafts) {
  if (!json.is_object() || !json.contains("p") || !json["p"].is_array() || json["p"].size() > kMaxDraftLen)
    return false;
  drafts->resize(json["p"].size());
  if (!read_numbers(json["p"], 0, &DraftEvidence::p, drafts)) return false;
  if (json.contains("confidence") && !read_numbers(json["confidence"], 0, &DraftEvidence::confidence, drafts))
    return false;
  if (!json.contains("q")) {
    complete_one_hot(drafts);
    return !json.contains("overlap") || read_numbers(json["overlap"], -1e-3f, &DraftEvidence::overlap, drafts);
  }
  return read_numbers(json["q"], 1e-30f, &DraftEvidence::q, drafts) &&
         read_numbers(json.value("overlap", Json()), -1e-3f, &DraftEvidence::overlap, drafts) &&
         read_numbers(json.value("block", Json()), 0, &DraftEvidence::block, drafts);
}

bool read_round(const Json& json, TracedRound* round) {
  if (!json.is_object()) return false;
  if (json.contains("model") && !read_draft(json["model"], &round->model)) return false;
  if (json.contains("model") && !json["model"].contains("confidence")) {  // of an older version
    for (DraftEvidence& draft : round->model) draft.confidence = kUnknownConfidence;
  }
  if (!json.contains("ngram")) return true;
  const Json& order = json["ngram"].is_object() ? json["ngram"].value("order", Json()) : Json();
  if (!order.is_number_integer() || !read_draft(json["ngram"], &round->ngram)) return false;
  round->ngram_order = std::clamp(order.get<int>(), 0, 1000);
  return true;
}

Status read_sequence(const Json& json, TracedSequence* sequence) {
  const Json n_prompt = json.value("prompt_tokens", Json());
  const Json n_tokens = json.value("tokens", Json());
  const Json task = json.value("task", Json());
  if (!json.contains("rounds") || !json["rounds"].is_array() || !n_prompt.is_number_unsigned() ||
      !n_tokens.is_number_unsigned() || !task.is_string()) {
    return invalid_file("is no sequence of a trace; `bass bench trace` writes them");
  }
  const Json& rounds = json["rounds"];
  sequence->task = task.get<std::string>();
  sequence->prompt_len = static_cast<int>(std::min<uint64_t>(n_prompt.get<uint64_t>(), 1 << 30));
  sequence->rounds.resize(rounds.size());
  if (n_tokens.get<uint64_t>() > rounds.size())
    return invalid_file("\"tokens\": a token has a round, and here some lack it");
  sequence->n_tokens = n_tokens.get<int>();
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (!read_round(rounds[i], &sequence->rounds[i])) {
      return invalid_file(
          fmt::format("rounds[{}] is damaged: lists of numbers from 0 to 1, of one length, belong there", i));
    }
  }
  return ok_status();
}

Status read_header(const Json& json, Trace* trace) {
  const Json version = json.value("trace", Json());
  if (version != Json(1)) return invalid_file("is no trace's first line; `bass bench trace` writes traces");
  const Json max_drafts = json.value("max_drafts", Json());
  if (!max_drafts.is_number_integer() || max_drafts < 1 || max_drafts > kMaxDraftLen) {
    return invalid_file(fmt::format("\"max_drafts\" must be a number from 1 to {}", kMaxDraftLen));
  }
  trace->max_drafts = max_drafts.get<int>();
  trace->compares_tokens = json.value("verify", Json()) == Json("match");
  return ok_status();
}

bool read_curve(const Json& json, std::vector<CostPoint>* curve) {
  if (!json.is_array()) return false;
  for (const Json& point : json) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) return false;
    curve->push_back({point[0].get<double>(), point[1].get<double>()});
    const CostPoint& last = curve->back();
    const double before = curve->size() > 1 ? (curve->end() - 2)->n : 0;
    if (!(last.n > before) || !(last.seconds > 0 && last.seconds < 3600)) return false;
  }
  return !curve->empty();
}

// Entry i is for passes that draft for 2^i to 2^(i+1) - 1 sequences; 0: none was measured.
std::vector<CostPoint> kept_draft_passes(const Json& json) {
  std::vector<CostPoint> curve;
  for (size_t size = 0; json.is_array() && size < std::min<size_t>(json.size(), StepCosts::kDraftSizes); ++size) {
    if (!json[size].is_number() || !(json[size].get<double>() > 0)) continue;
    curve.push_back({size == 0 ? 1.0 : 1.5 * static_cast<double>(1U << size), json[size].get<double>()});
  }
  return curve;
}

// Seconds for each row, each token of context that is read, and each row that sees it beside the free ones.
Status add_kept_attention(const Json& seconds, const Json& free_rows, MachineCosts* machine) {
  const bool is_known =
      seconds.is_array() && seconds.size() == AttentionFit::kTerms &&
      std::all_of(seconds.begin(), seconds.end(), [](const Json& s) { return s.is_number() && s >= 0; });
  if (!is_known) return invalid_file("\"attention_seconds\" must be three numbers, at least 0");
  for (CostPoint& point : machine->step) point.seconds += point.n * seconds[0].get<double>();
  machine->context_token_s = seconds[1].get<double>();
  machine->seen_token_s = seconds[2].get<double>();
  if (!free_rows.is_number() || !(free_rows >= 1)) return invalid_file("\"attention_free_rows\" must be at least 1");
  machine->free_rows = free_rows.get<double>();
  return ok_status();
}

Result<MachineCosts> machine_of(const Json& json) {
  MachineCosts machine;
  if (!json.is_object() || !read_curve(json.value("step_seconds", Json()), &machine.step)) {
    return invalid_file("\"step_seconds\" must be [[rows, seconds], ...] with ascending rows");
  }
  if (json.contains("draft_pass_seconds") && !read_curve(json["draft_pass_seconds"], &machine.draft_pass)) {
    return invalid_file("\"draft_pass_seconds\" must be [[sequences, seconds], ...] with ascending sequences");
  }
  for (const auto& [key, member] : {std::pair("context_token_seconds", &MachineCosts::context_token_s),
                                    std::pair("seen_token_seconds", &MachineCosts::seen_token_s),
                                    std::pair("catch_up_seconds", &MachineCosts::catch_up_token_s)}) {
    const Json seconds = json.value(key, Json(0));
    if (!seconds.is_number() || seconds < 0)
      return invalid_file(fmt::format("\"{}\" must be a number, at least 0", key));
    machine.*member = seconds.get<double>();
  }
  const Json can_look = json.value("can_look", Json(true));
  if (!can_look.is_boolean()) return invalid_file("\"can_look\" must be true or false");
  machine.can_look = can_look.get<bool>();
  if (json.contains("attention_seconds")) {
    BASS_RETURN_IF_ERROR(
        add_kept_attention(json["attention_seconds"], json.value("attention_free_rows", Json(1)), &machine));
  }
  if (json.contains("draft_step_seconds")) {
    machine.step = without_disturbances(machine.step);
    machine.draft_pass = without_disturbances(kept_draft_passes(json["draft_step_seconds"]));
  }
  return machine;
}

Result<MachineCosts> machine_in(const Json& json, const std::string& name) {
  if (!json.is_object() || !json.contains("machines")) return machine_of(json);
  const Json& machines = json["machines"];
  if (machines.is_object() && machines.contains(name)) return machine_of(machines[name]);
  std::string known;
  for (const auto& [key, value] : machines.items()) known += (known.empty() ? "" : ", ") + key;
  return invalid_argument(fmt::format("has no machine '{}'; give --machine one of: {}", name, known));
}

}  // namespace

std::string trace_line(const TracedSequence& sequence) {
  Json rounds = Json::array();
  for (const TracedRound& round : sequence.rounds) {
    Json& json = rounds.emplace_back(Json::object());
    if (!round.model.empty()) json["model"] = draft_json(round.model);
    if (round.ngram.empty()) continue;
    json["ngram"] = draft_json(round.ngram);
    json["ngram"]["order"] = round.ngram_order;
  }
  const Json json{{"task", sequence.task},
                  {"prompt_tokens", sequence.prompt_len},
                  {"tokens", sequence.n_tokens},
                  {"rounds", std::move(rounds)}};
  return json_line(json);
}

Result<Trace> read_trace(const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const std::string text, read_input(path));
  Trace trace;
  bool has_header = false;
  bool has_rounds = false;
  const auto read_row = [&](const std::string& line, const std::string&) -> Status {
    BASS_ASSIGN_OR_RETURN(const Json json, parse_user_json(line));
    if (!json.is_object()) return invalid_file("is no line of a trace");
    if (!std::exchange(has_header, true)) return read_header(json, &trace);
    BASS_RETURN_IF_ERROR(read_sequence(json, &trace.sequences.emplace_back()));
    has_rounds |= !trace.sequences.back().rounds.empty();
    return ok_status();
  };
  BASS_RETURN_IF_ERROR(for_each_line(input_name(path), text, read_row));
  if (!has_rounds)
    return invalid_file(fmt::format("{}: holds no generated text; `bass bench trace` writes traces", path));
  return trace;
}

Result<MachineCosts> read_machine(const std::string& path, const std::string& name) {
  BASS_ASSIGN_OR_RETURN(const std::string text, read_input(path));
  const auto named = [&](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", path, status.message()));
  };
  const Result<Json> json = parse_user_json(text);
  if (!json.ok()) return named(json.status());
  Result<MachineCosts> machine = machine_in(json.value(), name);
  if (!machine.ok()) return named(machine.status());
  return machine;
}

}  // namespace bass
