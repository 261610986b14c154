// How a model of a hub is named on the command line, and which names of a hub may become paths.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bass {

/// ORG/NAME[@REVISION][:FILE]
struct HubName {
  std::string repo;               ///< "ORG/NAME"
  std::string revision = "main";  ///< branch, tag or commit
  std::string file;               ///< a file of the repository, or a kind like Q4_K_M; empty: the only model there is

  /// As it is typed.
  [[nodiscard]] std::string text() const;
};

/// nullopt when the text has another form.
std::optional<HubName> parse_hub_name(std::string_view text);

/// Whether a hub's name for a file or a revision is a path that stays where it is put: relative, no "..", no empty
/// parts, no control characters, no longer than file systems take.
bool is_safe_hub_path(std::string_view path);

inline constexpr size_t kSha1Digits = 40;
inline constexpr size_t kSha256Digits = 64;

/// Lower-case hexadecimal digits, so many.
bool is_hex(std::string_view text, size_t n_digits);

/// The hash of a commit.
bool is_commit(std::string_view text);

}  // namespace bass
