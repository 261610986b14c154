// Lines that a person writes on a terminal: edited, of as many lines as wanted, and found again. Around libedit, which
// knows neither pastes nor messages of several lines.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/key_reader.h"
#include "cli/output.h"

struct editline;  // libedit's
struct historyW;

namespace bass {

/// What its keys do, for a person: whole lines.
extern const std::string_view kEditorHelp;

/// Has the terminal in a mode of its own while `next` waits and at no other time.
class LineEditor {
 public:
  /// For standard input and standard error, where the prompt is written. None where they are no terminals that obey
  /// control sequences.
  static std::unique_ptr<LineEditor> create(const Output& err);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Asks for a message: UTF-8, without the final line feed; none where Ctrl-D or the terminal's end says that there
  /// are no more. Error: kCancelled after Ctrl-C, or another signal that the process has got.
  Result<std::optional<std::string>> next();

 private:
  struct Keys;  // what libedit calls
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct EndEditor {
    void operator()(editline* editor) const;
  };
  struct EndHistory {
    void operator()(historyW* history) const;
  };

  explicit LineEditor(const Output& err);
  /// False: libedit cannot work here.
  bool start();
  void bind_keys();
  void send(std::string_view sequence);
  void remember(const wchar_t* message);
  void follow_size();

  Output err_;
  KeyReader keys_;
  std::unique_ptr<std::FILE, CloseFile> out_, nowhere_;
  std::unique_ptr<historyW, EndHistory> history_;
  std::unique_ptr<editline, EndEditor> editor_;
  TerminalSize size_;  // that libedit knows
  bool is_cancelled_ = false;
};

}  // namespace bass
