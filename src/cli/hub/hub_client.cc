#include "cli/hub/hub_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/check.h"
#include "cli/hub/hub_cache.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "text/plain_text.h"
#include "text/suggest.h"

namespace bass {
namespace {

constexpr std::string_view kDefaultEndpoint = "https://huggingface.co";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_true(std::string_view value) {
  const std::string text = lower_case(value);
  return text == "1" || text == "on" || text == "yes" || text == "true";
}

/// A token is sent as a header: what could end the line must not be in it.
Result<std::string> read_token() {
  std::string where = "HF_TOKEN";
  std::string token(trimmed(variable("HF_TOKEN")));
  if (token.empty()) {
    where = variable("HF_TOKEN_PATH");
    if (where.empty()) where = hub_home() + "/token";
    std::error_code error;
    if (!std::filesystem::is_regular_file(where, error)) return std::string();
    BASS_ASSIGN_OR_RETURN(token, read_input(where));
    token = std::string(trimmed(token));
  }
  const auto is_graphic = [](unsigned char c) { return c > ' ' && c < 0x7f; };
  if (std::ranges::all_of(token, is_graphic)) return token;
  return invalid_argument(fmt::format("{}: holds characters that no token has; set HF_TOKEN to a token", where));
}

int64_t number_or(std::string_view text, int64_t otherwise) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : otherwise;
}

/// The name of the contents: `W/"abc"` is abc. "" for what could not be a file's name.
std::string blob_of_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  const bool is_name = is_safe_hub_path(etag) && etag.find('/') == etag.npos && !etag.starts_with('.');
  return is_name ? std::string(etag) : "";
}

}  // namespace

Result<HubSettings> HubSettings::from_environment() {
  HubSettings settings;
  settings.endpoint = variable("HF_ENDPOINT");
  if (settings.endpoint.empty()) settings.endpoint = kDefaultEndpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (!settings.endpoint.starts_with("https://") && !settings.endpoint.starts_with("http://")) {
    return invalid_argument(fmt::format("HF_ENDPOINT {}: must begin with https:// or http://, like {}",
                                        settings.endpoint, kDefaultEndpoint));
  }
  constexpr int64_t kMaxStall = 3600;
  settings.stall_s =
      std::clamp(number_or(variable("HF_HUB_DOWNLOAD_TIMEOUT"), settings.stall_s), int64_t{1}, kMaxStall);
  settings.is_offline = is_true(variable("HF_HUB_OFFLINE"));
  BASS_ASSIGN_OR_RETURN(settings.token, read_token());
  return settings;
}

HubClient::HubClient(const HubSettings& settings, const HubName& name)
    : settings_(settings), name_(name), http_(settings.stall_s) {}

Result<std::string> HubClient::ask(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{32} << 20;
  std::string text;
  const HttpSink sink = [&](const HttpAnswer&, std::span<const char> bytes) {
    text.append(bytes.data(), bytes.size());
    return text.size() <= kMaxBytes ? ok_status() : unavailable("the hub's answer is longer than 32 MiB");
  };
  Patience patience;
  while (true) {
    text.clear();
    const std::string url = fmt::format("{}/api/models/{}{}", settings_.endpoint, name_.repo, path);
    const HttpOutcome outcome = http_.send({.url = url, .token = settings_.token}, sink);
    const Status status = error_of(outcome, name_.repo);
    if (status.ok()) return text;
    BASS_ASSIGN_OR_RETURN(const bool again, patience.try_again(outcome));
    if (!again) return status;
  }
}

Result<HubListing> HubClient::list() {
  const Result<std::string> text = ask(fmt::format("/revision/{}?blobs=true", url_quoted(name_.revision, false)));
  if (text.ok()) {
    Result<HubListing> listing = parse_hub_listing(text.value());
    if (listing.ok()) return listing;
    return unavailable(fmt::format("{} at {}: {}", name_.repo, settings_.endpoint, listing.status().message()));
  }
  if (text.status().code() != StatusCode::kInvalidArgument) return text.status();
  const Result<std::string> revisions = ask("/refs");  // there is no such revision, or no such repository
  if (!revisions.ok()) return text.status();
  const std::vector<std::string> names = parse_hub_revisions(revisions.value());
  const std::string meant = nearest(name_.revision, names);
  return invalid_argument(fmt::format("{}{}", text.status().message(),
                                      meant.empty() ? "" : fmt::format("; did you mean {}@{}?", name_.repo, meant)));
}

Status HubClient::complete(const std::string& commit, HubFile* file) {
  Patience patience;
  while (true) {
    const HttpOutcome outcome =
        http_.send({.url = file_url(commit, *file), .token = settings_.token, .is_head_only = true}, {});
    const bool is_elsewhere = outcome.answer.code >= 300 && outcome.answer.code < 400;
    Status status = is_elsewhere ? outcome.status : error_of(outcome, file->name);
    if (status.ok()) {
      const HttpAnswer& answer = outcome.answer;
      const std::string_view etag = answer.header("x-linked-etag");
      const std::string_view size = answer.header("x-linked-size");
      file->blob = blob_of_etag(etag.empty() ? answer.header("etag") : etag);
      file->n_bytes = number_or(size.empty() && !is_elsewhere ? answer.header("content-length") : size, -1);
      break;
    }
    BASS_ASSIGN_OR_RETURN(const bool again, patience.try_again(outcome));
    if (!again) return status;
  }
  const bool is_known = !file->blob.empty() && file->n_bytes >= 0 && file->n_bytes <= kMaxHubFileBytes;
  if (is_known) return ok_status();
  return unavailable(fmt::format("{} of {}: {} does not say its size and its hash (ETag), so it cannot be cached",
                                 file->name, name_.repo, settings_.endpoint));
}

HttpOutcome HubClient::get(const std::string& commit, const HubFile& file, int64_t first_byte, const HttpSink& sink) {
  return http_.send({.url = file_url(commit, file), .token = settings_.token, .first_byte = first_byte}, sink);
}

std::string HubClient::file_url(const std::string& commit, const HubFile& file) const {
  return fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, name_.repo, commit, url_quoted(file.name, true));
}

Status HubClient::error_of(const HttpOutcome& outcome, const std::string& what) const {
  const HttpAnswer& answer = outcome.answer;
  if (outcome.status.code() == StatusCode::kCancelled) return outcome.status;
  if (!outcome.status.ok()) return Status(outcome.status.code(), fmt::format("{}: {}", what, outcome.status.message()));
  if (answer.is_success()) return ok_status();
  constexpr int kUnauthorized = 401, kForbidden = 403, kNotFound = 404, kTooMany = 429;
  if (answer.code == kUnauthorized || answer.code == kForbidden) return no_access(answer);
  if (answer.code == kNotFound) return not_found(answer, what);
  const std::string_view hint =
      answer.code == kTooMany ? "; the hub allows so many requests only: wait, or set HF_TOKEN" : "; try again later";
  return unavailable(fmt::format("{}: {} answered {}{}", what, settings_.endpoint, answer.code, hint));
}

Status HubClient::no_access(const HttpAnswer& answer) const {
  const std::string page = settings_.endpoint + "/" + name_.repo;
  if (answer.header("x-error-code") == "GatedRepo") {
    return unavailable(fmt::format(
        "{}: is gated: accept its licence at {}, and set HF_TOKEN to a token of that account", name_.repo, page));
  }
  if (settings_.token.empty()) {
    return unavailable(
        fmt::format("{}: is not there, or private or gated (the hub answered {}); check the name at {}, "
                    "and set HF_TOKEN to a token that may read it",
                    name_.repo, answer.code, page));
  }
  return unavailable(
      fmt::format("{}: the token may not read it (the hub answered {}); is HF_TOKEN right, and the licence "
                  "accepted at {}?",
                  name_.repo, answer.code, page));
}

Status HubClient::not_found(const HttpAnswer& answer, const std::string& what) const {
  if (answer.header("x-error-code") == "RevisionNotFound") {
    return invalid_argument(
        fmt::format("{}: {} has no revision (branch, tag or commit) of this name", name_.text(), name_.repo));
  }
  if (what != name_.repo) return invalid_argument(fmt::format("{}: {} is not there any more", name_.text(), what));
  const std::string meant = nearest(name_.repo, cached_hub_repos());
  return invalid_argument(
      fmt::format("{}: there is no such model at {}; {}", name_.text(), settings_.endpoint,
                  meant.empty() ? "is the name spelled as on its page?" : fmt::format("did you mean {}?", meant)));
}

Result<bool> Patience::try_again(const HttpOutcome& outcome) {
  constexpr int kMaxFailures = 4, kTimeout = 408, kTooMany = 429, kServerError = 500;
  constexpr int64_t kMaxAskedS = 30;
  const int code = outcome.answer.code;
  const bool has_answer = outcome.status.ok();
  const bool may_pass = has_answer ? code == kTimeout || code == kTooMany || code >= kServerError : outcome.may_pass;
  const int64_t asked_s = has_answer ? outcome.answer.retry_after_s : 0;
  if (!may_pass || ++n_failures_ >= kMaxFailures || asked_s > kMaxAskedS) return false;
  const auto pause = std::max(std::chrono::milliseconds(100 << n_failures_), std::chrono::milliseconds(1000 * asked_s));
  const auto end = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < end) {
    BASS_RETURN_IF_ERROR(check_interrupted());
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  return true;
}

}  // namespace bass
