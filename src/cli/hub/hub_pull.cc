#include "cli/hub/hub_pull.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/check.h"
#include "cli/hub/hub_cache.h"
#include "cli/hub/hub_choice.h"
#include "cli/hub/hub_client.h"
#include "cli/hub/incomplete_blob.h"
#include "cli/hub/transfer_progress.h"
#include "cli/input.h"
#include "cli/terminal_text.h"

namespace bass {
namespace {

class Puller {
 public:
  Puller(const HubSettings& settings, const HubName& name, Console* console)
      : client_(settings, name), cache_(hub_cache_folder(), name.repo), name_(name), console_(console) {}

  Result<std::string> pull();

 private:
  /// Everything of `files` from the one at `first` on.
  Status fetch_files(std::vector<HubFile>* files, size_t first);
  Status fetch_file(const HubFile& file);
  Status fetch_blob(const HubFile& file);
  Status fill(const HubFile& file, IncompleteBlob* blob);
  HttpOutcome try_to_fill(const HubFile& file, IncompleteBlob* blob, TransferProgress* progress);

  HubClient client_;
  HubCache cache_;
  HubName name_;
  Console* console_;
  std::string commit_;
};

Result<std::string> Puller::pull() {
  BASS_ASSIGN_OR_RETURN(const HubListing listing, client_.list());
  BASS_ASSIGN_OR_RETURN(HubChoice choice, choose_hub_files(listing, name_));
  commit_ = listing.commit;
  BASS_RETURN_IF_ERROR(fetch_files(&choice.files, 0));
  const std::string folder = cache_.snapshot_path(commit_);
  if (choice.has_index) {
    BASS_ASSIGN_OR_RETURN(const std::string index, read_input(fmt::format("{}/{}", folder, kWeightIndexName)));
    const size_t n_fetched = choice.files.size();
    const Status status = add_indexed_files(listing, index, &choice);
    if (!status.ok()) return unavailable(fmt::format("{}: {}", name_.text(), status.message()));
    BASS_RETURN_IF_ERROR(fetch_files(&choice.files, n_fetched));
  }
  BASS_RETURN_IF_ERROR(cache_.write_revision(name_.revision, commit_));
  return choice.model.empty() ? folder : folder + "/" + choice.model;
}

Status Puller::fetch_files(std::vector<HubFile>* files, size_t first) {
  for (size_t i = first; i < files->size(); ++i) {
    HubFile& file = (*files)[i];
    if (file.blob.empty() || file.n_bytes < 0) BASS_RETURN_IF_ERROR(client_.complete(commit_, &file));
    BASS_RETURN_IF_ERROR(fetch_file(file));
  }
  return ok_status();
}

/// What is whole in the cache needs no writing, so that a cache of somebody else's may be read-only.
Status Puller::fetch_file(const HubFile& file) {
  if (cache_.has_file(commit_, file)) return ok_status();
  BASS_RETURN_IF_ERROR(cache_.make_folders());
  BASS_ASSIGN_OR_RETURN(const auto lock, HubLock::take(cache_.lock_path(file.blob), [&] {
                          console_->err.write(fmt::format("{}: another program is fetching it; waiting\n",
                                                          one_line_for_terminal(file.name)));
                        }));
  if (!cache_.has_blob(file)) BASS_RETURN_IF_ERROR(fetch_blob(file));
  return cache_.link(commit_, file);
}

/// What arrives damaged is fetched once more.
Status Puller::fetch_blob(const HubFile& file) {
  Status status;
  for (const bool is_last : {false, true}) {
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<IncompleteBlob> blob,
                          IncompleteBlob::open(cache_.blob_path(file.blob), file));
    BASS_RETURN_IF_ERROR(fill(file, blob.get()));
    status = blob->keep();
    if (status.code() != StatusCode::kInvalidFile) return status;
    console_->err.write(fmt::format("the download is damaged: {}{}\n", one_line_for_terminal(status.message()),
                                    is_last ? "" : "; trying again"));
  }
  return unavailable(fmt::format("{}: arrived damaged twice, and was not used: {}", name_.repo, status.message()));
}

Status Puller::fill(const HubFile& file, IncompleteBlob* blob) {
  constexpr int64_t kProgressBytes = int64_t{1} << 20;
  TransferProgress progress(&console_->err, file.name, file.n_bytes);
  Patience patience;
  int64_t reached = blob->n_bytes();
  while (!blob->is_whole()) {
    HttpOutcome outcome = try_to_fill(file, blob, &progress);
    Status status = client_.error_of(outcome, file.name);
    if (blob->is_whole()) break;
    if (status.ok()) {  // the server thinks that this was all
      status = unavailable(fmt::format("{}: the server sent {} of {} bytes", file.name, blob->n_bytes(), file.n_bytes));
      outcome = {.status = status, .may_pass = true};
    }
    if (blob->n_bytes() >= reached + kProgressBytes) {
      reached = blob->n_bytes();
      patience.renew();
    }
    BASS_ASSIGN_OR_RETURN(const bool again, patience.try_again(outcome));
    if (!again) return status;
  }
  progress.finish();
  return ok_status();
}

/// The position at which a 206 answer's bytes begin, from "bytes 100-199/200"; -1 if it does not say.
int64_t first_byte_of(const HttpAnswer& answer) {
  constexpr std::string_view kUnit = "bytes ";
  std::string_view range = answer.header("content-range");
  int64_t first = -1;
  if (!range.starts_with(kUnit)) return first;
  range.remove_prefix(kUnit.size());
  const auto [end, error] = std::from_chars(range.data(), range.data() + range.size(), first);
  return error == std::errc() ? first : -1;
}

HttpOutcome Puller::try_to_fill(const HubFile& file, IncompleteBlob* blob, TransferProgress* progress) {
  constexpr int kPartialContent = 206, kBadRange = 416;
  progress->show(blob->n_bytes());
  bool is_first = true;
  const int64_t first_byte = blob->n_bytes();
  HttpOutcome outcome =
      client_.get(commit_, file, first_byte, [&](const HttpAnswer& answer, std::span<const char> bytes) {
        if (std::exchange(is_first, false)) {
          const int64_t begin = answer.code == kPartialContent ? first_byte_of(answer) : 0;
          if (begin != first_byte) BASS_RETURN_IF_ERROR(blob->start_over());
          if (begin != blob->n_bytes())
            return unavailable("the server sent another part of the file than it was asked for");
        }
        BASS_RETURN_IF_ERROR(blob->write(bytes));
        progress->show(blob->n_bytes());
        return ok_status();
      });
  if (outcome.status.ok() && outcome.answer.code == kBadRange && first_byte > 0) {
    const Status status = blob->start_over();
    outcome = {.status = status.ok() ? unavailable("the server does not go on in the file") : status,
               .may_pass = status.ok()};
  }
  return outcome;
}

Result<std::string> pull_offline(const HubName& name) {
  Result<std::string> path = find_in_hub_cache(name);
  if (path.ok() || path.status().code() == StatusCode::kInvalidArgument) return path;
  return unavailable(fmt::format("{}, and HF_HUB_OFFLINE forbids to fetch it; unset it", path.status().message()));
}

}  // namespace

Result<std::string> pull_from_hub(const HubName& name, Console* console) {
  BASS_ASSIGN_OR_RETURN(const HubSettings settings, HubSettings::from_environment());
  if (settings.is_offline) return pull_offline(name);
  return Puller(settings, name, console).pull();
}

}  // namespace bass
