#include "text/suggest.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "text/plain_text.h"

namespace bass {
namespace {

constexpr int kNothingAlike = std::numeric_limits<int>::max();

/// Without the dashes before it, and in lower case.
std::string bare(std::string_view name) {
  return lower_case(name.substr(std::min(name.find_first_not_of('-'), name.size())));
}

std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '-' || c == '_') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

/// Whether all words of `part` stand in `whole`, in the same order: max-tokens in max-new-tokens.
bool has_words(const std::vector<std::string>& whole, const std::vector<std::string>& part) {
  size_t n_found = 0;
  for (const std::string& word : whole) {
    if (n_found < part.size() && word == part[n_found]) ++n_found;
  }
  return n_found == part.size();
}

/// How far a name is from one that somebody typed.
int distance(std::string_view typed, std::string_view name) {
  constexpr size_t kMinBeginning = 3;
  const std::string a = bare(typed), b = bare(name);
  if (a == b) return typed.size() == name.size() ? 0 : 1;
  if (a.size() == 1 || b.size() == 1) return kNothingAlike;  // every letter is one slip away from every other
  // A name's beginning is as good as a small slip: --temp means --temperature.
  if (a.size() >= kMinBeginning && b.starts_with(a)) return 1;
  const std::vector<std::string> words_a = words_of(a), words_b = words_of(b);
  if (has_words(words_a, words_b) || has_words(words_b, words_a)) return 1;
  return edit_distance(a, b);
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  const size_t n = b.size() + 1;
  std::vector<int> before(n), last(n), row(n);  // rows i - 2, i - 1 and i of the usual table
  for (size_t j = 0; j < n; ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j < n; ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr int kLettersASlip = 4;  // more slips than that, and it is another word
  std::string best;
  int best_distance = std::max(1, static_cast<int>(bare(word).size()) / kLettersASlip) + 1;
  for (const std::string& candidate : candidates) {
    const int candidate_distance = distance(word, candidate);
    if (candidate_distance >= best_distance) continue;
    best = candidate;
    best_distance = candidate_distance;
  }
  return best;
}

}  // namespace bass
