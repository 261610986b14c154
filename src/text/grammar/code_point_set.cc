#include "text/grammar/code_point_set.h"

#include <algorithm>

namespace bass {

void CodePointSet::tidy() {
  std::ranges::sort(ranges_, {}, &CodePointRange::first);
  std::vector<CodePointRange> tidied;
  for (const CodePointRange& range : ranges_) {
    if (!tidied.empty() && range.first <= tidied.back().last + 1) {
      tidied.back().last = std::max(tidied.back().last, range.last);
    } else {
      tidied.push_back(range);
    }
  }
  ranges_ = std::move(tidied);
}

void CodePointSet::add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  tidy();
}

CodePointSet CodePointSet::complement() const {
  CodePointSet result;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (next < range.first) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) result.ranges_.push_back({next, kMaxCodePoint});
  return result;
}

CodePointSet CodePointSet::without(const CodePointSet& other) const {
  CodePointSet rest = complement();
  rest.add(other);
  return rest.complement();
}

bool CodePointSet::contains(char32_t code_point) const {
  return std::ranges::any_of(
      ranges_, [&](const CodePointRange& range) { return range.first <= code_point && code_point <= range.last; });
}

}  // namespace bass
