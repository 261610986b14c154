// Character classes of Unicode, as the reference of the tokenizers (Hugging Face tokenizers) knows them.
#pragma once

#include <optional>
#include <string_view>

namespace bass {

/// The contents of a class for PCRE2: a general category ("L", "Lu", "Ll", "Lm", "Lo", "M", "N", "Nd", "P", "S"),
/// "space" (White_Space) or "word". None: PCRE2's own is as good.
std::optional<std::string_view> find_unicode_class(std::string_view name);

/// The reference's digit splitter knows Unicode 17's numbers too.
inline constexpr std::string_view kNewerNumber = R"(\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6})";

/// Its splitter at punctuation has all of ASCII's, and a few characters that later became something else ...
inline constexpr std::string_view kMorePunctuation = R"(!-/:-@\[-`{-~\x{166d}\x{111c9})";
/// ... and lacks what Unicode has added since.
inline constexpr std::string_view kNoPunctuation =
    R"(\x{61d}\x{9fd}\x{a76}\x{c77}\x{c84}\x{1b7d}-\x{1b7e}\x{2e43}-\x{2e4f}\x{2e52}-\x{2e5d}\x{10ead})"
    R"(\x{10f55}-\x{10f59}\x{10f86}-\x{10f89}\x{1144b}-\x{1144f}\x{1145a}-\x{1145b}\x{1145d}\x{11660}-\x{1166c})"
    R"(\x{116b9}\x{1183b}\x{11944}-\x{11946}\x{119e2}\x{11a3f}-\x{11a46}\x{11a9a}-\x{11a9c}\x{11a9e}-\x{11aa2})"
    R"(\x{11c41}-\x{11c45}\x{11c70}-\x{11c71}\x{11ef7}-\x{11ef8}\x{11fff}\x{12ff1}-\x{12ff2}\x{16e97}-\x{16e9a})"
    R"(\x{16fe2}\x{1e95e}-\x{1e95f}\x{1b4e}-\x{1b4f}\x{1b7f}\x{10d6e}\x{113d4}-\x{113d5}\x{113d7}-\x{113d8})"
    R"(\x{11b00}-\x{11b09}\x{11be1}\x{11f43}-\x{11f4f}\x{16d6d}-\x{16d6f}\x{1e5ff})";

}  // namespace bass
