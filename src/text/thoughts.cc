#include "text/thoughts.h"

#include "text/text_marks.h"

namespace bass {

bool ends_with_thoughts_begin(std::string_view text) {
  return text.substr(0, len_without_blanks(text)).ends_with(kThoughtsBegin);
}

bool is_in_thoughts(std::string_view text) {
  text.remove_prefix(skip_blanks(text));
  return text.starts_with(kThoughtsBegin) && text.find(kThoughtsEnd) == text.npos;
}

ThoughtsAhead thoughts_ahead(std::string_view prompt_end, std::string_view chat_template) {
  if (ends_with_thoughts_begin(prompt_end)) return ThoughtsAhead::kBegun;
  const bool are_over = prompt_end.substr(0, len_without_blanks(prompt_end)).ends_with(kThoughtsEnd);
  const bool are_known = chat_template.find(kThoughtsEnd) != chat_template.npos;
  return are_known && !are_over ? ThoughtsAhead::kMayBegin : ThoughtsAhead::kNone;
}

}  // namespace bass
