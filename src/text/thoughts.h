// What a model thinks before it answers, between <think> and </think>, as Qwen3, SmolLM3 and DeepSeek-R1 write it.
#pragma once

#include <cstdint>
#include <string_view>

namespace bass {

inline constexpr std::string_view kThoughtsBegin = "<think>";
inline constexpr std::string_view kThoughtsEnd = "</think>";

/// Whether a text ends with the mark that begins thoughts, but for blanks.
bool ends_with_thoughts_begin(std::string_view text);
/// Whether a text has begun thoughts, and not ended them.
bool is_in_thoughts(std::string_view text);

/// What the answer to a prompt begins with.
enum class ThoughtsAhead : uint8_t {
  kNone,      ///< no thoughts: the prompt has ended them, or the model does not know them
  kMayBegin,  ///< perhaps the mark that begins them
  kBegun,     ///< thoughts: the prompt ends with that mark
};

/// Of the prompt that a chat template has printed, or its end. What the template does not speak of is not known.
ThoughtsAhead thoughts_ahead(std::string_view prompt_end, std::string_view chat_template);

}  // namespace bass
