// A folder for a test's files that no other test, process or user has.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bass::testing {

/// Made empty, and removed with all that is in it at the end of its scope. Tests run side by side as processes of their
/// own: files of one name in one place would be cut under the reader's hands.
class TempFolder {
 public:
  TempFolder() : path_(::testing::TempDir() + "bass_test_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error(path_ + ": cannot be made");
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The path of a file in it, which need not exist.
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace bass::testing
