#include "text/stop_strings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "text/utf8.h"

namespace bass {

Status StopMatcher::check(const std::vector<std::string>& stop_strings) {
  size_t n_bytes = 0;
  for (const std::string& stop : stop_strings) {
    if (stop.empty()) return invalid_argument("a stop string is empty; leave it out or give it a text");
    if (!is_valid_utf8(stop)) return invalid_argument("a stop string is not valid UTF-8; convert it first");
    n_bytes += stop.size();
  }
  if (stop_strings.size() <= kMaxStrings && n_bytes <= kMaxBytes) return ok_status();
  return invalid_argument(fmt::format("there are {} stop strings of {} bytes; give at most {} of {} bytes together",
                                      stop_strings.size(), n_bytes, kMaxStrings, kMaxBytes));
}

Result<StopMatcher> StopMatcher::create(const std::vector<std::string>& stop_strings) {
  BASS_RETURN_IF_ERROR(check(stop_strings));
  std::vector<Pattern> patterns;
  for (const std::string& stop : stop_strings) {
    Pattern pattern{stop, {0}};
    for (size_t i = 1; i < stop.size(); ++i) {
      size_t n = pattern.border.back();
      while (n > 0 && stop[n] != stop[i]) n = pattern.border[n - 1];
      pattern.border.push_back(stop[n] == stop[i] ? n + 1 : 0);
    }
    patterns.push_back(std::move(pattern));
  }
  StopMatcher matcher;
  matcher.patterns_ = std::make_shared<const std::vector<Pattern>>(std::move(patterns));
  return matcher;
}

void StopMatcher::make_room(size_t n_bytes) {
  if (n_matched_.empty()) n_matched_.resize(patterns_->size());
  size_t longest = 0;
  for (const Pattern& pattern : *patterns_) longest = std::max(longest, pattern.text.size());
  held_.reserve(longest + n_bytes);
}

void StopMatcher::release_memory() noexcept {
  n_matched_ = std::vector<size_t>();
  held_ = std::string();
}

void StopMatcher::advance(const Pattern& pattern, char byte, size_t* n_matched) {
  size_t& n = *n_matched;
  while (n > 0 && pattern.text[n] != byte) n = pattern.border[n - 1];
  if (pattern.text[n] == byte) ++n;
}

bool StopMatcher::push(std::string_view text, std::string* safe) {
  if (stopped_) return true;
  if (n_matched_.empty()) n_matched_.resize(patterns_->size());
  for (const char byte : text) {
    held_ += byte;
    size_t n_stop = 0;
    for (size_t i = 0; i < n_matched_.size(); ++i) {
      const Pattern& pattern = (*patterns_)[i];
      advance(pattern, byte, &n_matched_[i]);
      if (n_matched_[i] == pattern.text.size()) n_stop = std::max(n_stop, n_matched_[i]);
    }
    if (n_stop > 0) {
      stopped_ = true;
      safe->append(held_, 0, held_.size() - n_stop);
      held_.clear();
      return true;
    }
  }
  size_t n_held = 0;
  for (const size_t n_matched : n_matched_) n_held = std::max(n_held, n_matched);
  const size_t n_safe = held_.size() - n_held;
  safe->append(held_, 0, n_safe);
  held_.erase(0, n_safe);
  return false;
}

void StopMatcher::flush(std::string* safe) {
  std::ranges::fill(n_matched_, 0);
  *safe += held_;
  held_.clear();
}

}  // namespace bass
