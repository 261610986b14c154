#include "cli/model_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/check.h"
#include "base/digest.h"
#include "io/gguf.h"
#include "model/model_source.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHeadBytes = 1 << 20;  // where metadata are
constexpr int64_t kBlocks = 256;         // behind that
constexpr int64_t kBlockBytes = 4096;

bool is_of_a_checkpoint(const fs::path& path) {
  constexpr std::array kEndings{".json", ".model", ".txt", ".safetensors"};
  return std::ranges::find(kEndings, path.extension().string()) != kEndings.end() && fs::is_regular_file(path);
}

std::vector<std::string> files_of_checkpoint(const std::string& path) {
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::absolute(path).parent_path();
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_of_a_checkpoint(entry.path())) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

Result<std::vector<std::string>> files_of(const std::string& path) {
  try {
    if (is_checkpoint(path)) return files_of_checkpoint(path);
  } catch (const fs::filesystem_error& error) {
    return invalid_argument(fmt::format("{}: cannot be read: {}", path, error.code().message()));
  }
  BASS_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(path));
  return file.file_paths();
}

class Reader {
 public:
  explicit Reader(Digest* digest) : digest_(digest) {}

  Status add(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(0, std::ios::end);
    const int64_t n_bytes = file.tellg();
    digest_->update(fmt::format("{};", n_bytes));
    const bool has_weights = !path.ends_with(".json") && !path.ends_with(".model") && !path.ends_with(".txt");
    const int64_t n_head = has_weights ? std::min(n_bytes, kHeadBytes) : n_bytes;
    add_bytes(&file, 0, n_head);
    const int64_t n_rest = n_bytes - n_head;
    if (n_rest <= kBlocks * kBlockBytes) {
      add_bytes(&file, n_head, n_rest);
    } else {
      for (int64_t i = 0; i < kBlocks; ++i) {
        const double part = static_cast<double>(i) / (kBlocks - 1);
        add_bytes(&file, n_head + static_cast<int64_t>(part * static_cast<double>(n_rest - kBlockBytes)), kBlockBytes);
      }
    }
    return file.good() ? ok_status() : invalid_argument(fmt::format("{}: cannot be read", path));
  }

 private:
  void add_bytes(std::ifstream* file, int64_t begin, int64_t n_bytes) {
    if (n_bytes <= 0 || !file->good()) return;
    buffer_.resize(static_cast<size_t>(n_bytes));
    file->seekg(begin);
    file->read(buffer_.data(), n_bytes);
    digest_->update(buffer_);
  }

  Digest* digest_;
  std::vector<char> buffer_;
};

}  // namespace

Result<std::string> model_digest(const std::string& path) {
  constexpr size_t kDigits = 16;
  BASS_ASSIGN_OR_RETURN(const std::vector<std::string> files, files_of(path));
  Digest digest = Digest::sha256();
  Reader reader(&digest);
  for (const std::string& file : files) BASS_RETURN_IF_ERROR(reader.add(file));
  return digest.finish().substr(0, kDigits);
}

}  // namespace bass
