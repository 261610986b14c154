// A chat template, which comes with a model file, run on a conversation that holds every kind of value.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "text/jinja/template.h"

namespace {

using Json = nlohmann::ordered_json;

const Json& variables() {
  static const Json json = Json::parse(R"({
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "H\u00e9 <|x|>\n"},
                 {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]},
                 {"role": "tool", "content": ""}],
    "tools": [{"function": {"name": "f", "parameters": {"properties": {"a": {"type": "list"}}, "required": []}}}],
    "documents": null, "add_generation_prompt": true, "bos_token": "<s>", "a": [3, 1, 2], "s": "Hello", "d": {"b": 1, "A": 2.5},
    "n": 7})");
  return json;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using bass::jinja::Template;
  constexpr bass::jinja::Limits kLimits{.max_steps = 100'000, .max_bytes = 4 << 20};
  const bass::Result<Template> parsed = Template::parse({reinterpret_cast<const char*>(data), size});
  const bass::Result<std::string> text = parsed.ok() ? parsed.value().render(variables(), 0, kLimits) : parsed.status();
  BASS_CHECK(text.ok() || text.status().code() == bass::StatusCode::kInvalidArgument);
  BASS_CHECK(!text.ok() || static_cast<int64_t>(text.value().size()) <= kLimits.max_bytes);
  return 0;
}
