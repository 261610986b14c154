#include "cli/hub/hub_name.h"

#include <algorithm>

namespace bass {
namespace {

constexpr std::string_view kMainRevision = "main";

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/// The hub's own rules for the name of an account or a repository.
bool is_repo_part(std::string_view part) {
  const auto is_allowed = [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; };
  if (part.empty() || !std::ranges::all_of(part, is_allowed)) return false;
  for (const char end : {part.front(), part.back()}) {
    if (end == '-' || end == '.') return false;
  }
  return part.find("--") == part.npos && part.find("..") == part.npos && !part.ends_with(".git");
}

bool is_repo(std::string_view repo) {
  constexpr size_t kMaxRepoLen = 96;
  const size_t slash = repo.find('/');
  return repo.size() <= kMaxRepoLen && slash != repo.npos && is_repo_part(repo.substr(0, slash)) &&
         is_repo_part(repo.substr(slash + 1));
}

bool is_safe_part(std::string_view part) {
  constexpr size_t kMaxPartLen = 255;
  const auto is_harmful = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f' || c == '\\'; };
  return !part.empty() && part.size() <= kMaxPartLen && part != "." && part != ".." &&
         std::ranges::none_of(part, is_harmful);
}

}  // namespace

std::string HubName::text() const {
  std::string text = repo;
  if (revision != kMainRevision) text += "@" + revision;
  if (!file.empty()) text += ":" + file;
  return text;
}

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName name;
  if (const size_t colon = text.find(':'); colon != text.npos) {
    name.file = text.substr(colon + 1);
    if (!is_safe_hub_path(name.file)) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (const size_t at = text.find('@'); at != text.npos) {
    name.revision = text.substr(at + 1);
    if (!is_safe_hub_path(name.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  if (!is_repo(text)) return std::nullopt;
  name.repo = text;
  return name;
}

bool is_safe_hub_path(std::string_view path) {
  constexpr size_t kMaxPathLen = 1024;
  if (path.size() > kMaxPathLen) return false;
  while (true) {
    const size_t slash = path.find('/');
    if (!is_safe_part(path.substr(0, slash))) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_hex(std::string_view text, size_t n_digits) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == n_digits && std::ranges::all_of(text, is_digit);
}

bool is_commit(std::string_view text) { return is_hex(text, kSha1Digits); }

}  // namespace bass
