// Sets of code points, as sorted ranges that neither touch nor overlap.
#pragma once

#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"

namespace bass {

class CodePointSet {
 public:
  CodePointSet() = default;
  explicit CodePointSet(std::vector<CodePointRange> ranges) : ranges_(std::move(ranges)) { tidy(); }

  static CodePointSet all() { return CodePointSet({{0, kMaxCodePoint}}); }
  static CodePointSet one(char32_t code_point) { return CodePointSet({{code_point, code_point}}); }

  void add(const CodePointSet& other);
  [[nodiscard]] CodePointSet complement() const;
  [[nodiscard]] CodePointSet without(const CodePointSet& other) const;

  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] bool contains(char32_t code_point) const;
  [[nodiscard]] const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  void tidy();

  std::vector<CodePointRange> ranges_;
};

}  // namespace bass
