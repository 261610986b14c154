// The parts of a tokenizer.json that say how a text is treated.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"
#include "text/tokenizer_rules.h"

namespace bass {

/// A member of an object, as one of the types that these files have; the message of an error names it as `where`.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  [[nodiscard]] bool has(std::string_view key) const;  ///< and it is not null
  [[nodiscard]] Result<JsonView> get(std::string_view key) const;
  [[nodiscard]] Result<std::string> get_string(std::string_view key) const;
  [[nodiscard]] Result<std::string> get_string_or(std::string_view key, std::string_view fallback) const;
  [[nodiscard]] Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  [[nodiscard]] Result<int64_t> get_int(std::string_view key) const;
  /// The elements of an array.
  [[nodiscard]] Result<std::vector<JsonView>> get_array(std::string_view key) const;

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] Status error(std::string_view what) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
};

/// Text of a file for a message: not endless, and no control characters for a terminal to obey.
std::string printable(std::string_view text);

/// Appends the steps of "normalizer". Error: a kind that BASS does not know.
Status add_normalizer(const JsonView& json, std::vector<NormalizeStep>& steps);
/// Appends the steps of "pre_tokenizer".
Status add_pre_tokenizer(const JsonView& json, std::vector<SplitStep>& steps);

/// What "decoder" does to a text.
struct DecoderRules {
  bool is_byte_level = false;
  FirstSpace first_space = FirstSpace::kKeep;
};
Result<DecoderRules> read_decoder(const JsonView& json);

/// Which special tokens "post_processor" puts around a text; empty: none.
struct TemplateTokens {
  std::string begin, end;
};
Result<TemplateTokens> read_post_processor(const JsonView& json);

}  // namespace bass
