// The language of chat templates: the part of Jinja that models' templates use, with the settings of transformers
// (trim_blocks, lstrip_blocks, the immutable sandbox, break and continue, `generation`).
//
// Not supported: recursive loops; what speaks of other templates (the tags block, extends, include, import and from);
// whole numbers of more than 64 bits; autoescape (`safe` and `escape` give plain text, there is no such tag); the
// function lipsum; the filters groupby, pprint, random, slice, striptags, urlencode, urlize, wordwrap, xmlattr and
// filesizeformat; the string methods encode, expandtabs, format_map, isidentifier, isprintable, istitle and translate;
// attributes of functions and macros. Generators are gone through when they are made, and an unknown filter or test is
// an error only where it is used.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "bass/status.h"
#include "text/jinja/runtime.h"

namespace bass::jinja {

inline constexpr size_t kMaxSourceBytes = size_t{256} << 10;

/// A parsed template. Immutable: any number of threads may render it.
class Template {
 public:
  /// Errors (kInvalidArgument): "line N: ..."; a source that is too long.
  static Result<Template> parse(std::string_view source);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  /// What the template prints. `variables`: an object; `now`: what strftime_now sees. A template can do nothing but
  /// compute: it has no way to the outside, and Limits bound its time and its memory. Errors (kInvalidArgument):
  /// "line N: ...": what Jinja would refuse, raise_exception, a limit.
  [[nodiscard]] Result<std::string> render(const nlohmann::ordered_json& variables, std::time_t now,
                                           const Limits& limits = {}) const;

 private:
  struct Tree;
  explicit Template(std::unique_ptr<Tree> tree);

  std::unique_ptr<Tree> tree_;
};

}  // namespace bass::jinja
