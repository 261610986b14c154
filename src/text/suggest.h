// The nearest known word to one that is not known.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace bass {

/// Insertions, deletions, replacements and swaps of neighbours that make one word of the other.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` (the first of several), or "" when none is near enough to be what was meant. Case
/// does not count, and a word too many or too few is a small slip (--max-new-tokens); a name of one letter is meant
/// only by that letter.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace bass
