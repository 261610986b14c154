// The most probable of n answers: collects what samples say, and their log-probabilities.
#include <bass/engine.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct Answer {
  std::string text;
  double logprob = 0;  // of all its tokens
  int n_tokens = 0;
  std::string error;

  [[nodiscard]] double mean_logprob() const { return n_tokens > 0 ? logprob / n_tokens : -1e9; }
};

// One request's events, to its end. A queue of its own: nobody else takes from it.
std::vector<Answer> collect(bass::EventQueue& events, int n) {
  std::vector<Answer> answers(static_cast<size_t>(n));
  for (bass::Event event; events.wait(&event) && event.kind != bass::Event::Kind::kDone;) {
    if (event.kind == bass::Event::Kind::kPrompt) continue;
    Answer& answer = answers[static_cast<size_t>(event.choice_idx)];
    answer.text += event.text;  // of kTokens, and what kFinished has held back
    for (const bass::TokenInfo& token : event.tokens) answer.logprob += static_cast<double>(token.logprob);
    answer.n_tokens += static_cast<int>(event.tokens.size());
    if (event.kind == bass::Event::Kind::kFinished) answer.error = event.error.message();
  }
  return answers;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: best_of MODEL.gguf PROMPT [DRAFT.gguf]\n";
    return 2;
  }
  const auto engine =
      bass::Engine::load({.model_path = argv[1], .draft_path = argc > 3 ? argv[3] : "", .max_batch = 8});
  if (!engine.ok()) {
    std::cerr << engine.status().message() << '\n';
    return 2;
  }
  bass::Request request;
  request.prompt = argv[2];
  request.n = 8;
  request.max_tokens = 48;
  request.time_budget_s = 30;  // then samples end with what they have
  const auto events = std::make_shared<bass::EventQueue>();
  if (const auto id = engine.value()->submit(request, events); !id.ok()) {
    std::cerr << id.status().message() << '\n';
    return 2;
  }
  std::vector<Answer> answers = collect(*events, request.n);
  std::ranges::sort(answers, std::ranges::greater(), &Answer::mean_logprob);
  for (const Answer& answer : answers) {
    std::printf("%.3f %s%s\n", answer.mean_logprob(), answer.text.c_str(), answer.error.c_str());
  }
  return 0;
}
