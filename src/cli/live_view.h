// The live view of a run on a terminal: a line a sequence with its newest text, and a line of figures.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/results.h"

namespace bass {

/// The lines that a terminal of this size gets; each fits its width, and all of them leave a row for the cursor.
struct LiveFrame {
  std::vector<std::string> lines;
};
LiveFrame make_live_frame(const GenerationResult& result, TerminalSize size, bool has_color, bool shows_drafts);

/// Draws frames over each other, at most some fifteen a second. Hides the cursor; the destructor, or `clear`, takes
/// the view away and shows the cursor again.
class LiveView {
 public:
  LiveView(Output* output, bool shows_drafts) : output_(output), shows_drafts_(shows_drafts) {}
  ~LiveView() { clear(); }
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  void update(const GenerationResult& result);
  void clear();

 private:
  /// Control sequence that puts the cursor on the first row of what was drawn last. A terminal that became narrower may
  /// have wrapped those lines into more rows, or cut them: the view goes up by what it drew, never into what is above
  /// it.
  [[nodiscard]] std::string go_to_top(TerminalSize size) const;

  Output* output_;
  bool shows_drafts_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point next_at_;  // nothing is drawn before
  int n_drawn_lines_ = 0;
};

}  // namespace bass
