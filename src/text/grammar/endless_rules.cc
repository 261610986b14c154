#include <algorithm>

#include "text/grammar/json_schema_compiler.h"

namespace bass {
namespace {

struct Alternative {
  size_t rule = 0;
  size_t n_open = 0;  // rules in it that are not known to end
};

struct RuleGraph {
  std::vector<Alternative> alternatives;
  std::vector<std::vector<size_t>> users;  // rule -> alternatives with it, as often as it is in there
};

RuleGraph graph_of(const std::vector<Grammar::Rule>& rules) {
  RuleGraph graph;
  graph.users.resize(rules.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const Grammar::Sequence& sequence : rules[i].alternatives) {
      Alternative alternative{i};
      for (const Grammar::Element& element : sequence) {
        if (element.kind != Grammar::Element::Kind::kRule) continue;
        graph.users[static_cast<size_t>(element.idx)].push_back(graph.alternatives.size());
        ++alternative.n_open;
      }
      graph.alternatives.push_back(alternative);
    }
  }
  return graph;
}

}  // namespace

// Backwards from what ends: an alternative ends when all of its rules do, a rule when one of its alternatives does.
bool has_endless_rule(const Grammar& grammar) {
  RuleGraph graph = graph_of(grammar.rules());
  std::vector<bool> ends(grammar.rules().size(), false);
  std::vector<size_t> ended;  // whose users have not been looked at
  const auto close = [&](const Alternative& alternative) {
    if (alternative.n_open > 0 || ends[alternative.rule]) return;
    ends[alternative.rule] = true;
    ended.push_back(alternative.rule);
  };
  std::ranges::for_each(graph.alternatives, close);
  while (!ended.empty()) {
    const size_t rule = ended.back();
    ended.pop_back();
    for (const size_t user : graph.users[rule]) {
      --graph.alternatives[user].n_open;
      close(graph.alternatives[user]);
    }
  }
  return std::ranges::find(ends, false) != ends.end();
}

}  // namespace bass
