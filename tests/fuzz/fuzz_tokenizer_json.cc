// Tokenizer files: whatever their bytes are, loading ends in a vocabulary or in a message, and a vocabulary that was
// taken encodes and decodes any text. What begins like an object is a tokenizer.json, anything else a tokenizer.model.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace {

constexpr std::string_view kText =
    "Hello  world, it's 12345 \xC3\xA9\xE5\xAD\x97\n\t<s> \xFF\xE2\x96\x81 a\xCC\x81 <mask> x";

void use(const bass::Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_special = parse_special, .parse_special = parse_special});
    if (!ids.ok()) continue;  // an expression that takes too many steps
    const auto decoded = tokenizer.decode(ids.value(), true);
    BASS_CHECK(decoded.ok());
    bass::StreamDetokenizer stream(tokenizer, true);
    std::string streamed;
    for (const bass::TokenId id : ids.value()) streamed += stream.push(id);
    BASS_CHECK(streamed + stream.flush() == bass::to_valid_utf8(decoded.value()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto vocab =
      bytes.starts_with('{') ? bass::parse_tokenizer_json(bytes, "fuzz") : bass::parse_sentencepiece(bytes, "fuzz");
  if (!vocab.ok()) return 0;
  const auto tokenizer = bass::Tokenizer::create(std::move(vocab).value());
  if (!tokenizer.ok()) return 0;
  use(*tokenizer.value(), kText);
  use(*tokenizer.value(), bytes.substr(0, 200));
  return 0;
}
