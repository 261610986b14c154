#include "text/unicode_classes.h"

#include <algorithm>
#include <array>
#include <string>

namespace bass {
namespace {

// The reference follows Unicode 16 in its expressions, and PCRE2 the Unicode of its own version, 14 in Debian 12: what
// came after 14 is spelled out, so that the same text gives the same tokens wherever BASS was built. No character of 14
// has changed its class. The ASCII members come first because PCRE2 finds those with one look into a bit map.
constexpr std::string_view kLetter =
    R"(A-Za-z\p{L})"
    R"(\x{1c89}-\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85})"
    R"(\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7})"
    R"(\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155})"
    R"(\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d}\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739})"
    R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kUpper = R"(A-Z\p{Lu})"
                                    R"(\x{1c89}\x{a7cb}-\x{a7cc}\x{a7da}\x{a7dc}\x{10d50}-\x{10d65})";
constexpr std::string_view kLower = R"(a-z\p{Ll})"
                                    R"(\x{1c8a}\x{a7cd}\x{a7db}\x{10d70}-\x{10d85}\x{1df25}-\x{1df2a})";
constexpr std::string_view kModifier =
    R"(\p{Lm})"
    R"(\x{10d4e}\x{10d6f}\x{16d40}-\x{16d42}\x{16d6b}-\x{16d6c}\x{1e030}-\x{1e06d}\x{1e4eb})";
constexpr std::string_view kOtherLetter =
    R"(\p{Lo})"
    R"(\x{105c0}-\x{105f3}\x{10d4a}-\x{10d4d}\x{10d4f}\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240}\x{11380}-\x{11389})"
    R"(\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02})"
    R"(\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d})"
    R"(\x{16d43}-\x{16d6a}\x{18cff}\x{1b132}\x{1b155}\x{1e4d0}-\x{1e4ea}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739})"
    R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kMark =
    R"(\p{M})"
    R"(\x{897}\x{cf3}\x{ece}\x{10d69}-\x{10d6d}\x{10efc}-\x{10eff}\x{11241}\x{113b8}-\x{113c0}\x{113c2}\x{113c5})"
    R"(\x{113c7}-\x{113ca}\x{113cc}-\x{113d0}\x{113d2}\x{113e1}-\x{113e2}\x{11f00}-\x{11f01}\x{11f03})"
    R"(\x{11f34}-\x{11f3a}\x{11f3e}-\x{11f42}\x{11f5a}\x{13440}\x{13447}-\x{13455}\x{1611e}-\x{1612f}\x{1e08f})"
    R"(\x{1e4ec}-\x{1e4ef}\x{1e5ee}-\x{1e5ef})";
constexpr std::string_view kAnyNumber =
    R"(0-9\p{N})"
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59}\x{16130}-\x{16139})"
    R"(\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";
constexpr std::string_view kDecimal =
    R"(0-9\p{Nd})"
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59}\x{16130}-\x{16139})"
    R"(\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";
constexpr std::string_view kPunctuation =
    R"(\p{P})"
    R"(\x{1b4e}-\x{1b4f}\x{1b7f}\x{10d6e}\x{113d4}-\x{113d5}\x{113d7}-\x{113d8}\x{11b00}-\x{11b09}\x{11be1})"
    R"(\x{11f43}-\x{11f4f}\x{16d6d}-\x{16d6f}\x{1e5ff})";
constexpr std::string_view kSymbol =
    R"(\p{S})"
    R"(\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}-\x{31e5}\x{31ef}\x{10d8e}-\x{10d8f}\x{1cc00}-\x{1ccef})"
    R"(\x{1cd00}-\x{1ceb3}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9}\x{1f8b2}-\x{1f8bb})"
    R"(\x{1f8c0}-\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf})"
    R"(\x{1fac6}\x{1face}-\x{1facf}\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8})"
    R"(\x{1fbcb}-\x{1fbef})";
// Unicode's White_Space. PCRE2's \s also has U+180E.
constexpr std::string_view kSpace =
    R"(\x{20}\x{9}-\x{d}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// Numbers that Oniguruma takes for parts of words, beside the letters, marks and decimal digits.
constexpr std::string_view kWordExtra =
    R"(\p{Pc}\p{Nl}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169})"
    R"(\x{1f170}-\x{1f189})";

struct NamedClass {
  std::string_view name;
  std::string contents;
};

const auto& classes() {
  static const std::array kClasses =
      std::to_array<NamedClass>({{"L", std::string(kLetter)},
                                 {"Lu", std::string(kUpper)},
                                 {"Ll", std::string(kLower)},
                                 {"Lm", std::string(kModifier)},
                                 {"Lo", std::string(kOtherLetter)},
                                 {"M", std::string(kMark)},
                                 {"N", std::string(kAnyNumber)},
                                 {"Nd", std::string(kDecimal)},
                                 {"P", std::string(kPunctuation)},
                                 {"S", std::string(kSymbol)},
                                 {"space", std::string(kSpace)},
                                 {"word", std::string(kLetter).append(kMark).append(kDecimal).append(kWordExtra)}});
  return kClasses;
}

}  // namespace

std::optional<std::string_view> find_unicode_class(std::string_view name) {
  const auto* const found = std::ranges::find(classes(), name, &NamedClass::name);
  if (found == classes().end()) return std::nullopt;
  return found->contents;
}

}  // namespace bass
