#include "text/stop_strings.h"

#include <algorithm>

#include "text/utf8.h"

namespace bass {

Result<StopMatcher> StopMatcher::create(const std::vector<std::string>& stop_strings) {
  StopMatcher matcher;
  for (const std::string& stop : stop_strings) {
    if (stop.empty()) return invalid_argument("a stop string is empty; leave it out or give it a text");
    if (!is_valid_utf8(stop)) return invalid_argument("a stop string is no valid UTF-8");
    Pattern pattern{stop, {0}, 0};
    for (size_t i = 1; i < stop.size(); ++i) {
      size_t n = pattern.border.back();
      while (n > 0 && stop[n] != stop[i]) n = pattern.border[n - 1];
      pattern.border.push_back(stop[n] == stop[i] ? n + 1 : 0);
    }
    matcher.patterns_.push_back(std::move(pattern));
  }
  return matcher;
}

void StopMatcher::advance(Pattern& pattern, char byte) {
  size_t& n = pattern.n_matched;
  while (n > 0 && pattern.text[n] != byte) n = pattern.border[n - 1];
  if (pattern.text[n] == byte) ++n;
}

bool StopMatcher::push(std::string_view text, std::string* safe) {
  if (stopped_) return true;
  for (const char byte : text) {
    held_ += byte;
    size_t n_stop = 0;
    for (Pattern& pattern : patterns_) {
      advance(pattern, byte);
      if (pattern.n_matched == pattern.text.size()) n_stop = std::max(n_stop, pattern.n_matched);
    }
    if (n_stop > 0) {
      stopped_ = true;
      safe->append(held_, 0, held_.size() - n_stop);
      held_.clear();
      return true;
    }
  }
  size_t n_held = 0;
  for (const Pattern& pattern : patterns_) n_held = std::max(n_held, pattern.n_matched);
  const size_t n_safe = held_.size() - n_held;
  safe->append(held_, 0, n_safe);
  held_.erase(0, n_safe);
  return false;
}

void StopMatcher::flush(std::string* safe) {
  for (Pattern& pattern : patterns_) pattern.n_matched = 0;
  *safe += held_;
  held_.clear();
}

}  // namespace bass
