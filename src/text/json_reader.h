// tokenizer.json as a tree, but for its two long lists.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bass/status.h"

namespace bass {

struct TokenizerJson {  // NOLINT(bugprone-exception-escape): the library's values move without, and do not say so
  nlohmann::json root;  ///< without model.vocab and model.merges, which are null there if they exist
  struct Entry {
    std::string text;
    int64_t id = 0;    ///< of an object: the number; of a list of pairs: the place in it
    double score = 0;  ///< of a list of pairs
  };
  std::vector<Entry> vocab;
  bool is_list = false;             ///< vocab was a list of pairs
  std::vector<std::string> merges;  ///< "left right"
};

/// Reads without a tree of the long lists, so that memory stays near the size of the text. Errors (kInvalidFile,
/// without the file's name): no valid JSON and at which byte, nested too deep, too many values, lists of another form.
Result<TokenizerJson> read_tokenizer_json(std::string_view text);

/// A small JSON file: the same limits.
Result<nlohmann::json> read_small_json(std::string_view text);

}  // namespace bass
