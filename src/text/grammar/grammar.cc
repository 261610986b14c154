#include "text/grammar/grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace bass {
namespace {

using Element = Grammar::Element;

constexpr int kUtf8Classes = 4;  // characters of one to four bytes
constexpr std::array<char32_t, kUtf8Classes> kLastOfClass{0x7F, 0x7FF, 0xFFFF, kMaxCodePoint};
constexpr std::array<unsigned, kUtf8Classes> kLeadBits{0x00, 0xC0, 0xE0, 0xF0};
constexpr CodePointRange kSurrogates{0xD800, 0xDFFF};

ByteSet byte_range(unsigned first, unsigned last) {
  ByteSet set;
  for (unsigned byte = first; byte <= last; ++byte) set.set(byte);
  return set;
}

// rules -> whether they match the empty text
std::vector<bool> nullable_rules(const Grammar& grammar) {
  const std::vector<Grammar::Rule>& rules = grammar.rules();
  std::vector<bool> is_nullable(rules.size(), false);
  const auto is_empty = [&](const Element& element) {
    return element.kind == Element::Kind::kRule && is_nullable[static_cast<size_t>(element.idx)];
  };
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = rules.size(); i-- > 0;) {
      if (is_nullable[i]) continue;
      is_nullable[i] = std::ranges::any_of(rules[i].alternatives, [&](const Grammar::Sequence& alternative) {
        return std::ranges::all_of(alternative, is_empty);
      });
      has_changed |= is_nullable[i];
    }
  }
  return is_nullable;
}

/// What a rule may begin with.
struct LeftEdge {
  int32_t rule = 0;
  bool leaves_rest = false;  // something stands behind it, which an automaton has to remember
};

std::vector<std::vector<LeftEdge>> left_edges(const Grammar& grammar) {
  const std::vector<bool> is_nullable = nullable_rules(grammar);
  std::vector<std::vector<LeftEdge>> edges(grammar.rules().size());
  for (size_t i = 0; i < edges.size(); ++i) {
    for (const Grammar::Sequence& alternative : grammar.rules()[i].alternatives) {
      for (size_t k = 0; k < alternative.size(); ++k) {
        const Element& element = alternative[k];
        if (element.kind == Element::Kind::kBytes) break;
        edges[i].push_back({element.idx, k + 1 < alternative.size()});
        if (!is_nullable[static_cast<size_t>(element.idx)]) break;
      }
    }
  }
  return edges;
}

/// Strongly connected components (Tarjan), without recursion: rules nest as deep as a pattern repeats.
class Components {
 public:
  explicit Components(const std::vector<std::vector<LeftEdge>>& edges)
      : edges_(edges), component_(edges.size(), -1), order_(edges.size(), -1), low_(edges.size(), 0) {
    for (size_t i = 0; i < edges.size(); ++i) {
      if (order_[i] < 0) visit(static_cast<int32_t>(i));
    }
  }
  [[nodiscard]] bool are_same(int32_t a, int32_t b) const {
    return component_[static_cast<size_t>(a)] == component_[static_cast<size_t>(b)];
  }

 private:
  struct Frame {
    int32_t rule;
    size_t next_edge;
  };

  void enter(int32_t rule) {
    low_[static_cast<size_t>(rule)] = order_[static_cast<size_t>(rule)] = n_entered_++;
    open_.push_back(rule);
    frames_.push_back({rule, 0});
  }

  void visit(int32_t first) {
    enter(first);
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      const auto rule = static_cast<size_t>(frame.rule);
      if (frame.next_edge < edges_[rule].size()) {
        const int32_t next = edges_[rule][frame.next_edge++].rule;
        const auto n = static_cast<size_t>(next);
        if (order_[n] < 0) {
          enter(next);
        } else if (component_[n] < 0) {
          low_[rule] = std::min(low_[rule], order_[n]);
        }
        continue;
      }
      if (low_[rule] == order_[rule]) close(frame.rule);
      const int32_t low = low_[rule];
      frames_.pop_back();
      if (!frames_.empty()) {
        int32_t& parent_low = low_[static_cast<size_t>(frames_.back().rule)];
        parent_low = std::min(parent_low, low);
      }
    }
  }

  void close(int32_t root) {
    for (int32_t rule = -1; rule != root;) {
      rule = open_.back();
      open_.pop_back();
      component_[static_cast<size_t>(rule)] = root;
    }
  }

  const std::vector<std::vector<LeftEdge>>& edges_;
  std::vector<int32_t> component_, order_, low_;
  std::vector<int32_t> open_;
  std::vector<Frame> frames_;
  int32_t n_entered_ = 0;
};

// A rule that begins with itself and leaves something to do behind it: before a byte is read it would have been entered
// without end.
bool has_left_recursion(const Grammar& grammar) {
  const std::vector<std::vector<LeftEdge>> edges = left_edges(grammar);
  const Components components(edges);
  for (size_t i = 0; i < edges.size(); ++i) {
    for (const LeftEdge& edge : edges[i]) {
      if (edge.leaves_rest && components.are_same(static_cast<int32_t>(i), edge.rule)) return true;
    }
  }
  return false;
}

}  // namespace

GrammarBuilder::GrammarBuilder(Grammar begun) : grammar_(std::move(begun)) {
  for (const Grammar::Rule& rule : grammar_.rules_) {
    ++n_elements_;
    for (const Sequence& alternative : rule.alternatives) n_elements_ += alternative.size() + 1;
  }
}

bool GrammarBuilder::take(size_t n_elements) {
  is_too_large_ = is_too_large_ || n_elements > kMaxElements - n_elements_;
  if (!is_too_large_) n_elements_ += n_elements;
  return !is_too_large_;
}

Grammar::RuleId GrammarBuilder::declare() {
  if (!take(1)) return 0;
  grammar_.rules_.emplace_back();
  return static_cast<Grammar::RuleId>(grammar_.rules_.size()) - 1;
}

void GrammarBuilder::define(Grammar::RuleId rule, std::vector<Sequence> alternatives) {
  size_t n_elements = 0;
  for (const Sequence& alternative : alternatives) n_elements += alternative.size() + 1;
  if (take(n_elements)) grammar_.rules_[static_cast<size_t>(rule)].alternatives = std::move(alternatives);
}

Grammar::Sequence GrammarBuilder::bytes(const ByteSet& set) {
  const auto known = std::ranges::find(grammar_.byte_sets_, set);
  const auto idx = static_cast<int32_t>(known - grammar_.byte_sets_.begin());
  if (known == grammar_.byte_sets_.end()) grammar_.byte_sets_.push_back(set);
  return {{Element::Kind::kBytes, idx}};
}

Grammar::Sequence GrammarBuilder::text(std::string_view text) {
  Sequence sequence;
  for (const char c : text) sequence.push_back(bytes(ByteSet().set(static_cast<uint8_t>(c))).front());
  return sequence;
}

Grammar::Sequence GrammarBuilder::concat(std::initializer_list<Sequence> parts) const {
  Sequence all;
  for (const Sequence& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Grammar::Sequence GrammarBuilder::any_of(std::vector<Sequence> alternatives) {
  if (alternatives.size() == 1) return std::move(alternatives.front());
  const Grammar::RuleId id = declare();
  define(id, std::move(alternatives));
  return rule(id);
}

Grammar::Sequence GrammarBuilder::any_text(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts.empty() ? any_of({}) : text_tree(texts, 0);
}

// texts: ascending, all different, and alike in their first n_read bytes
Grammar::Sequence GrammarBuilder::text_tree(std::span<const std::string> texts, size_t n_read) {
  const std::string& first = texts.front();
  const auto n_alike = static_cast<size_t>(std::ranges::mismatch(first, texts.back()).in1 - first.begin());
  Sequence sequence = text(std::string_view(first).substr(n_read, n_alike - n_read));
  if (texts.size() == 1) return sequence;
  std::vector<Sequence> ways;
  if (first.size() == n_alike) ways.emplace_back();
  for (auto begin = texts.begin() + static_cast<ptrdiff_t>(ways.size()); begin != texts.end();) {
    const auto end =
        std::find_if(begin, texts.end(), [&](const std::string& text) { return text[n_alike] != (*begin)[n_alike]; });
    ways.push_back(text_tree({begin, end}, n_alike));
    begin = end;
  }
  return concat({sequence, any_of(std::move(ways))});
}

Grammar::Sequence GrammarBuilder::repeat(const Sequence& sequence, int min, std::optional<int> max) {
  Sequence tail;
  if (!max) {
    const Grammar::RuleId rest = declare();
    define(rest, {concat({sequence, rule(rest)}), {}});
    tail = rule(rest);
  }
  if (max) tail = rest_of_repetition(sequence, *max - min);
  Sequence all;
  for (int i = 0; i < min && take(sequence.size()); ++i) all.insert(all.end(), sequence.begin(), sequence.end());
  all.insert(all.end(), tail.begin(), tail.end());
  return all;
}

Grammar::Sequence GrammarBuilder::rest_of_repetition(const Sequence& sequence, int max) {
  const auto repetition = static_cast<int32_t>(grammar_.rules_.size());
  Sequence rest;
  for (int rank = 1; rank <= max; ++rank) {
    rest = optional(concat({sequence, rest}));
    if (is_too_large_) return {};
    Grammar::Rule& rule = grammar_.rules_[static_cast<size_t>(rest.front().idx)];
    rule.repetition = repetition;
    rule.rank = rank;
  }
  return rest;
}

// Characters of as many bytes. Where all bytes behind the first may be anything for a part of the range, that part is
// one alternative; its two ends go on a byte further.
Grammar::Sequence GrammarBuilder::utf8_range(char32_t first, char32_t last) {
  const auto n_bytes = std::ranges::lower_bound(kLastOfClass, last) - kLastOfClass.begin() + 1;
  const auto part = [&](auto&& self, char32_t low, char32_t high, int n_left, unsigned lead) -> Sequence {
    const int shift = 6 * (n_left - 1);
    const auto byte_of = [&](char32_t c) {
      return lead | static_cast<unsigned>(c >> shift & (n_left == n_bytes ? 0x7Fu : 0x3Fu));
    };
    const char32_t rest = (char32_t{1} << shift) - 1;
    if (n_left == 1) return bytes(byte_range(byte_of(low), byte_of(high)));
    const auto behind = [&](char32_t from, char32_t to) { return self(self, from, to, n_left - 1, 0x80); };
    const auto whole = [&](unsigned from, unsigned to) {
      Sequence sequence = bytes(byte_range(from, to));
      for (int i = 1; i < n_left; ++i) sequence.push_back(bytes(byte_range(0x80, 0xBF)).front());
      return sequence;
    };
    if (byte_of(low) == byte_of(high))
      return concat({bytes(ByteSet().set(byte_of(low))), behind(low & rest, high & rest)});
    std::vector<Sequence> parts;
    unsigned from = byte_of(low), to = byte_of(high);
    if ((low & rest) != 0) parts.push_back(concat({bytes(ByteSet().set(from++)), behind(low & rest, rest)}));
    const bool is_last_whole = (high & rest) == rest;
    if (!is_last_whole) --to;
    if (from <= to) parts.push_back(whole(from, to));
    if (!is_last_whole) parts.push_back(concat({bytes(ByteSet().set(byte_of(high))), behind(0, high & rest)}));
    return any_of(std::move(parts));
  };
  return part(part, first, last, static_cast<int>(n_bytes), kLeadBits[static_cast<size_t>(n_bytes - 1)]);
}

Grammar::Sequence GrammarBuilder::character(std::span<const CodePointRange> ranges) {
  std::vector<Sequence> parts;
  const auto add = [&](char32_t first, char32_t last) {
    char32_t begin = 0;
    for (const char32_t end : kLastOfClass) {
      const char32_t low = std::max(first, begin), high = std::min(last, end);
      if (low <= high) parts.push_back(utf8_range(low, high));
      begin = end + 1;
    }
  };
  for (const CodePointRange& range : ranges) {
    add(range.first, std::min(range.last, char32_t{kSurrogates.first - 1}));
    add(std::max(range.first, char32_t{kSurrogates.last + 1}), range.last);
  }
  return any_of(std::move(parts));
}

Result<Grammar> GrammarBuilder::finish(const Sequence& root) {
  grammar_.root_ = declare();
  define(grammar_.root_, {root});
  if (is_too_large_) {
    return invalid_argument(
        fmt::format("it is too large: more than {} parts when repetitions are written out", kMaxElements));
  }
  if (has_left_recursion(grammar_)) return invalid_argument("it refers to itself with nothing in front of that");
  return std::move(grammar_);
}

}  // namespace bass
