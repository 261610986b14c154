#include "cli/results_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/temporary_file.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLineBegin = "{\"index\":";  // of every line that prompt_json gave

/// A deadline's choice has what there was of it, if there was anything.
bool has_result(const ChoiceResult& choice) {
  if (choice.finish_reason == FinishReason::kDeadline) return choice.n_tokens > 0;
  return choice.finish_reason != FinishReason::kCancelled && choice.finish_reason != FinishReason::kError;
}

/// Whether it tells what is sampled; the engine's options are told by name.
bool tells_what_is_asked(const Option& option) {
  constexpr std::array kOfEngine{"quantize", "activations", "kv_type", "context"};
  if (std::ranges::find(kOfEngine, option.name) != kOfEngine.end()) return true;
  return option.is_per_request && option.group != OptionGroup::kSpeculation && option.name != "time_budget";
}

/// Whether one of both is the beginning of the other.
bool are_alike(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return a.substr(0, n) == b.substr(0, n);
}

/// The beginning of a line that prompt_json gave, and not all of it.
bool is_cut_line(std::string_view text) {
  if (!are_alike(text, kLineBegin) || Json::accept(text)) return false;
  text.remove_prefix(std::min(text.size(), kLineBegin.size()));
  text.remove_prefix(std::min(text.size(), text.find_first_not_of("0123456789")));
  return are_alike(text, ",\"id\":") || are_alike(text, ",\"request\":");
}

/// Opening a named pipe waits for its reader.
Result<int> open_patiently(const std::string& path, int flags) {
  constexpr mode_t kMode = 0666;  // less the umask
  while (true) {
    const int fd = ::open(path.c_str(), flags, kMode);
    if (fd >= 0) return fd;
    const int error = errno;
    if (error == EINTR && !is_interrupted()) continue;
    if (error == EINTR) return Status(StatusCode::kCancelled, fmt::format("--results {}: interrupted", path));
    if (error == ENOSPC || error == EDQUOT) return disk_error("--results " + path);
    return invalid_argument(
        fmt::format("--results {}: cannot be written: {}; name a file in a folder that is there and can be written",
                    path, std::strerror(error)));
  }
}

/// Whether the open file still has this name.
bool is_named(int fd, const std::string& path) {
  struct stat open_file {};
  struct stat named_file {};
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named_file) == 0 && open_file.st_ino == named_file.st_ino &&
         open_file.st_dev == named_file.st_dev;
}

/// Of a prompt with its options, as far as they tell what is sampled (so without speculation, which is lossless, and a
/// time budget), and of the model: 16 hexadecimal digits of a SHA-256.
std::string request_digest(const GenerateOptions& options, const std::string& model, const PromptSpec& prompt) {
  constexpr size_t kDigits = 16;
  Json json{{"model", model}};
  json["prompt"] = prompt.request.prompt;
  for (const ChatMessage& message : prompt.request.messages) {
    Json said{message.role, message.content};
    const std::array more{message.tool_calls, message.tool_call_id, message.name};
    if (std::ranges::any_of(more, [](const std::string& text) { return !text.empty(); })) said.push_back(more);
    json["messages"].push_back(std::move(said));
  }
  if (!prompt.request.prompt_tokens.empty()) json["prompt_tokens"] = prompt.request.prompt_tokens;
  if (prompt.id.has_value()) json["id"] = *prompt.id;
  GenerateOptions asked;
  asked.engine = options.engine;
  asked.request = prompt.request;
  const GenerateOptions defaults;
  for (const Option& option : options_table()) {
    if (!tells_what_is_asked(option)) continue;
    const nlohmann::json value = option_json(option, asked);
    if (value != option_json(option, defaults)) json[std::string(option.name)] = value;  // new options change nothing
  }
  Digest digest = Digest::sha256();
  digest.update(json_line(json));
  return digest.finish().substr(0, kDigits);
}

}  // namespace

Result<std::unique_ptr<ResultsFile>> ResultsFile::open(const std::string& path, Output* out) {
  std::unique_ptr<ResultsFile> file(new ResultsFile(path));
  if (path == "-") {
    file->out_ = out;
    return file;
  }
  BASS_RETURN_IF_ERROR(file->open_file());
  if (file->is_regular_) BASS_RETURN_IF_ERROR(file->read_lines());
  return file;
}

ResultsFile::~ResultsFile() {
  if (fd_ < 0) return;
  if (is_new_ && !has_lines_ && is_named(fd_, path_)) unlink(path_.c_str());
  close(fd_);
}

Status ResultsFile::open_file() {
  struct stat info {};
  is_new_ = lstat(path_.c_str(), &info) != 0;
  is_regular_ = stat(path_.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  const int flags = O_APPEND | O_CLOEXEC | (is_regular_ ? O_RDWR | O_CREAT : O_WRONLY);
  while (true) {
    BASS_ASSIGN_OR_RETURN(fd_, open_patiently(path_, flags));
    if (!is_regular_) return ok_status();
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {  // some file systems have no locks
      is_new_ = false;
      return invalid_argument(
          fmt::format("--results {}: another run writes to it; wait for its end, or name another file", path_));
    }
    if (is_named(fd_, path_)) return ok_status();
    close(std::exchange(fd_, -1));  // a run that failed has removed it meanwhile
  }
}

std::string ResultsFile::place(int line_number) const { return fmt::format("--results {}:{}", path_, line_number); }

Status ResultsFile::read_lines() {
  struct Close {
    void operator()(FILE* file) const { fclose(file); }
  };
  const std::unique_ptr<FILE, Close> file(fdopen(dup(fd_), "r"));
  char* line = nullptr;
  size_t capacity = 0;
  Status status;
  int number = 0;
  for (ssize_t n; status.ok() && file != nullptr && (n = getline(&line, &capacity, file.get())) > 0;)
    status = take_line({line, static_cast<size_t>(n)}, ++number);
  const int error = errno;
  free(line);
  if (file != nullptr && ferror(file.get()) == 0) return status;
  return invalid_argument(fmt::format("--results {}: cannot be read: {}", path_, std::strerror(error)));
}

Status ResultsFile::take_line(std::string_view text, int number) {
  if (!text.ends_with('\n')) return take_end(text, number);
  end_ += static_cast<int64_t>(text.size());
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return ok_status();
  BASS_ASSIGN_OR_RETURN(Line line, read_line(text, number));
  lines_.push_back(std::move(line));
  return ok_status();
}

Result<ResultsFile::Line> ResultsFile::read_line(std::string_view text, int number) const {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* key, bool (Json::*is_kind)() const) {
    return json.is_object() && json.contains(key) && (json[key].*is_kind)();
  };
  if (!has("index", &Json::is_number_unsigned) || !has("request", &Json::is_string) ||
      !has("choices", &Json::is_array)) {
    return invalid_argument(fmt::format(
        "{}: is no line that --results has written; name another file, or remove the line (its prompt is then "
        "run again)",
        place(number)));
  }
  return Line{number, json["index"].get<int64_t>(), json["request"].get<std::string>()};
}

// A last line without its end: whole if somebody has edited the file, else of a run that was killed, or of a full disk.
// Nobody else's text: it is no JSON yet and begins as a line of this program does.
Status ResultsFile::take_end(std::string_view text, int number) {
  Result<Line> line = read_line(text, number);
  if (line.ok()) {
    lines_.push_back(std::move(line).value());
    end_ += static_cast<int64_t>(text.size());
    lacks_line_feed_ = true;
    return ok_status();
  }
  return is_cut_line(text) ? ok_status() : line.status();
}

Status ResultsFile::mend_end() const {
  if (!is_regular_) return ok_status();
  if (ftruncate(fd_, end_) != 0) return disk_error("--results " + path_);
  return lacks_line_feed_ ? write_all(fd_, std::string_view("\n"), "--results " + path_) : ok_status();
}

Result<int> ResultsFile::skip_done(const GenerateOptions& options, const std::string& model,
                                   std::vector<PromptSpec>* prompts) {
  for (const PromptSpec& prompt : *prompts) request_of_[prompt.index] = request_digest(options, model, prompt);
  std::unordered_set<int> done;
  for (const Line& line : lines_) {
    const auto request = request_of_.find(static_cast<int>(std::min<int64_t>(line.index, INT32_MAX)));
    if (request == request_of_.end()) {
      return invalid_argument(fmt::format("{}: is of prompt {}, which is not there (the last is {}); name another file",
                                          place(line.number), line.index, prompts->back().index));
    }
    if (request->second != line.request) {
      return invalid_argument(
          fmt::format("{}: prompt {} was another one then, had other options (a --seed?) or was another model's; give "
                      "those of that run, or name another file",
                      place(line.number), line.index));
    }
    done.insert(request->first);
  }
  BASS_RETURN_IF_ERROR(mend_end());
  has_lines_ = !lines_.empty();
  lines_ = {};
  return static_cast<int>(
      std::erase_if(*prompts, [&](const PromptSpec& prompt) { return done.contains(prompt.index); }));
}

Result<bool> ResultsFile::append(const PromptResult& prompt, bool shows_origins) {
  if (!std::ranges::all_of(prompt.choices, has_result)) return false;
  const auto request = request_of_.find(prompt.index);
  BASS_CHECK(request != request_of_.end());
  BASS_RETURN_IF_ERROR(write_line(json_line(prompt_json(prompt, shows_origins, request->second))));
  has_lines_ = true;
  return true;
}

Status ResultsFile::check_kept() const {
  if (!is_regular_ || is_named(fd_, path_)) return ok_status();
  return resource_exhausted(
      fmt::format("--results {}: was moved, replaced or removed while the run wrote to it; the results are in the file "
                  "that had this name",
                  path_));
}

Status ResultsFile::write_line(const std::string& line) {
  if (out_ != nullptr) {
    out_->write(line);
    return out_->status();
  }
  struct stat before {};
  const bool is_known = is_regular_ && fstat(fd_, &before) == 0;
  Status status = write_all(fd_, line, "--results " + path_);
  if (status.ok()) return status;
  if (is_known && ftruncate(fd_, before.st_size) != 0) return status;  // the next run removes what there is of the line
  return {status.code(), fmt::format("{}; what is there stays, and the same command goes on", status.message())};
}

}  // namespace bass
