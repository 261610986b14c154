// What we ask a hub: which files a repository has, and their contents.
#pragma once

#include <string>

#include "bass/status.h"
#include "cli/hub/http_client.h"
#include "cli/hub/hub_listing.h"
#include "cli/hub/hub_name.h"

namespace bass {

struct HubSettings {
  std::string endpoint;     ///< HF_ENDPOINT, without a slash at its end
  std::string token;        ///< HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; may be empty
  int64_t stall_s = 10;     ///< HF_HUB_DOWNLOAD_TIMEOUT
  bool is_offline = false;  ///< HF_HUB_OFFLINE

  /// Error (kInvalidArgument): a variable makes no sense.
  static Result<HubSettings> from_environment();
};

/// One repository of a hub. What may pass (5xx, a connection that breaks, silence) is tried a few times, with growing
/// pauses. Errors: kInvalidArgument: there is no such thing; kUnavailable: the hub, the network or the rights;
/// kCancelled. All name the repository and the mend.
class HubClient {
 public:
  HubClient(const HubSettings& settings, const HubName& name);

  Result<HubListing> list();

  /// Asks for size and blob of a file that the listing said too little about.
  Status complete(const std::string& commit, HubFile* file);

  /// One try to get the file from first_byte on. The server may begin at 0 all the same: see answer.code, 200 or 206.
  HttpOutcome get(const std::string& commit, const HubFile& file, int64_t first_byte, const HttpSink& sink);

  /// The error of an outcome: of the transfer or of the answer's code; ok if it is neither. `what`: names the thing.
  [[nodiscard]] Status error_of(const HttpOutcome& outcome, const std::string& what) const;

 private:
  /// GET of a path of the hub's API, with patience; gives the body.
  Result<std::string> ask(const std::string& path);
  [[nodiscard]] std::string file_url(const std::string& commit, const HubFile& file) const;
  [[nodiscard]] Status no_access(const HttpAnswer& answer) const;
  [[nodiscard]] Status not_found(const HttpAnswer& answer, const std::string& what) const;

  HubSettings settings_;
  HubName name_;
  HttpClient http_;
};

/// Counts the tries of one thing. Pauses grow from a fifth of a second.
class Patience {
 public:
  /// Whether to try once more; then waits, as long as the server asked if that is not long. Error: kCancelled.
  Result<bool> try_again(const HttpOutcome& outcome);
  /// Something was reached: all tries are there again.
  void renew() { n_failures_ = 0; }

 private:
  int n_failures_ = 0;
};

}  // namespace bass
