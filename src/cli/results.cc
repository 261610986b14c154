#include "cli/results.h"

#include <algorithm>

#include "engine/ranking.h"

namespace bass {
namespace {

std::optional<double> mean_logprob(const ChoiceResult& choice) {
  if (choice.tokens.empty()) return std::nullopt;
  double sum = 0;
  for (const TokenInfo& token : choice.tokens) sum += static_cast<double>(token.logprob);
  return sum / static_cast<double>(choice.tokens.size());
}

SampleRank rank_of(const ChoiceResult& choice) { return {choice.finish_reason, choice.mean_logprob, choice.index}; }

void add(const SpeculationStats& part, SpeculationStats* sum) {
  sum->rounds += part.rounds;
  sum->drafted += part.drafted;
  sum->accepted += part.accepted;
  for (size_t i = 0; i < part.draft_length_histogram.size(); ++i) {
    sum->draft_length_histogram[i] += part.draft_length_histogram[i];
  }
}

std::optional<double> ratio(int64_t numerator, int64_t denominator) {
  if (denominator == 0) return std::nullopt;
  return static_cast<double>(numerator) / static_cast<double>(denominator);
}

void take_event(Event event, ChoiceResult* choice) {
  choice->top_logprobs.insert(choice->top_logprobs.end(), event.top_logprobs.begin(), event.top_logprobs.end());
  for (const TokenInfo& token : event.tokens) choice->add(token);
  choice->text += event.text;
  if (event.kind != Event::Kind::kFinished) return;
  choice->is_finished = true;
  choice->finish_reason = event.finish_reason;
  choice->stats = event.stats;
  choice->error = std::move(event.error);
}

LatencySummary latency_of(const GenerationResult& result) {
  LatencySummary latency;
  double first_s = 0, last_s = 0, sum_ms = 0;
  int n_choices = 0;
  for (const PromptResult& prompt : result.prompts) {
    for (const ChoiceResult& choice : prompt.choices) {
      if (choice.n_tokens == 0) continue;
      const double ms = 1e3 * choice.stats.decode_s / static_cast<double>(choice.n_tokens);
      const double finished_s = prompt.submitted_s + choice.stats.finished_at_s;
      if (n_choices == 0 || finished_s < first_s) latency.first_ms = ms;
      if (n_choices == 0 || finished_s >= last_s) latency.last_ms = ms;
      first_s = n_choices == 0 ? finished_s : std::min(first_s, finished_s);
      last_s = std::max(last_s, finished_s);
      sum_ms += ms;
      ++n_choices;
    }
  }
  if (n_choices > 0) latency.all_ms = sum_ms / n_choices;
  return latency;
}

}  // namespace

void take_event(Event event, PromptResult* prompt) {
  switch (event.kind) {
    case Event::Kind::kPrompt:
      prompt->n_prompt_tokens = event.n_prompt_tokens;
      return;
    case Event::Kind::kDone:
      prompt->n_prompt_tokens = event.n_prompt_tokens;  // a prompt that was never processed has tokens too
      end_untold(FinishReason::kError, event.error, prompt);
      return rank_choices(prompt);
    case Event::Kind::kTokens:
    case Event::Kind::kFinished:
      ChoiceResult* choice = &prompt->choices.at(static_cast<size_t>(event.choice_idx));
      return take_event(std::move(event), choice);
  }
}

void end_untold(FinishReason reason, const Status& error, PromptResult* prompt) {
  for (ChoiceResult& choice : prompt->choices) {
    if (choice.is_finished) continue;
    choice.is_finished = true;
    choice.finish_reason = reason;
    choice.error = error;
  }
}

void rank_choices(PromptResult* prompt) {
  std::vector<ChoiceResult*> order;
  for (ChoiceResult& choice : prompt->choices) {
    choice.mean_logprob = mean_logprob(choice);
    order.push_back(&choice);
  }
  std::ranges::sort(order, is_better, [](const ChoiceResult* choice) { return rank_of(*choice); });
  for (size_t i = 0; i < order.size(); ++i) order[i]->rank = static_cast<int>(i) + 1;
}

std::vector<const ChoiceResult*> ranked_choices(const PromptResult& prompt) {
  std::vector<const ChoiceResult*> order(prompt.choices.size());
  for (const ChoiceResult& choice : prompt.choices) order[static_cast<size_t>(choice.rank) - 1] = &choice;
  return order;
}

void release_texts(bool has_view, PromptResult* prompt) {
  const size_t max_kept = has_view ? 1024 : 0;  // more than a terminal shows
  for (ChoiceResult& choice : prompt->choices) {
    std::vector<TokenInfo>().swap(choice.tokens);
    std::vector<TopLogprob>().swap(choice.top_logprobs);
    const size_t n_kept = std::min(choice.text.size(), max_kept);
    choice.text = std::string(choice.text.end() - static_cast<ptrdiff_t>(n_kept), choice.text.end());
  }
}

Summary summarise(const GenerationResult& result) {
  Summary summary;
  for (const PromptResult& prompt : result.prompts) {
    summary.prompt_tokens += prompt.n_prompt_tokens;
    for (const ChoiceResult& choice : prompt.choices) {
      summary.completion_tokens += choice.n_tokens;
      add(choice.stats.speculation, &summary.speculation);
    }
  }
  const EngineStats& stats = result.stats;
  if (result.total_s > 0) summary.tokens_per_s = static_cast<double>(summary.completion_tokens) / result.total_s;
  if (stats.decode_s > 0) summary.decode_tokens_per_s = static_cast<double>(stats.decode_tokens) / stats.decode_s;
  summary.latency = latency_of(result);
  const SpeculationStats& speculation = summary.speculation;
  summary.acceptance_rate = ratio(speculation.accepted, speculation.drafted);
  summary.mean_accepted_len = ratio(speculation.accepted, speculation.rounds);
  summary.tokens_per_round = ratio(speculation.accepted + speculation.rounds, speculation.rounds);
  for (size_t len = 0; len < speculation.draft_length_histogram.size(); ++len) {
    if (speculation.draft_length_histogram[len] > 0) summary.longest_draft = static_cast<int>(len);
  }
  return summary;
}

}  // namespace bass
