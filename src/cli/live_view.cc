#include "cli/live_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/interrupt.h"
#include "cli/progress_line.h"
#include "cli/report.h"
#include "cli/terminal_text.h"

namespace bass {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval{66};
constexpr int kMaxShare = 50;     // of the time one part goes to drawing, however many samples there are
constexpr int kWideColumns = 40;  // from here on there is room for token counts
constexpr int kRowsForLegend = 8;

struct Sequence {
  const PromptResult* prompt = nullptr;
  const ChoiceResult* choice = nullptr;
};

/// Those that fit, in order; where not all do, running sequences come before waiting and finished ones.
std::vector<Sequence> visible_sequences(const GenerationResult& result, size_t n_rows) {
  std::vector<Sequence> running, others;
  for (const PromptResult& prompt : result.prompts) {
    for (const ChoiceResult& choice : prompt.choices) {
      const bool is_running = !choice.is_finished && choice.n_tokens > 0;
      (is_running ? running : others).push_back({&prompt, &choice});
    }
  }
  running.insert(running.end(), others.begin(), others.end());
  running.resize(std::min(running.size(), n_rows));
  std::sort(running.begin(), running.end(), [](const Sequence& a, const Sequence& b) {
    return a.prompt->index != b.prompt->index ? a.prompt->index < b.prompt->index : a.choice->index < b.choice->index;
  });
  return running;
}

/// The end of a text that can matter for a line, from the beginning of a character.
size_t tail_offset(std::string_view text, int n_columns) {
  const size_t n_kept = static_cast<size_t>(n_columns) * 8 + 64;
  size_t offset = text.size() > n_kept ? text.size() - n_kept : 0;
  while (offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xC0u) == 0x80u) ++offset;
  return offset;
}

std::string newest_text(const ChoiceResult& choice, int n_columns, bool is_colored) {
  const size_t begin = tail_offset(choice.text, n_columns);
  ColoredText line;
  for (const TerminalChar& c : last_line(split_for_terminal(std::string_view(choice.text).substr(begin)), n_columns)) {
    line.add(is_colored ? origin_color(origin_at(choice, begin + c.offset)) : "", c.bytes);
  }
  return line.finish();
}

std::string sequence_label(const Sequence& sequence, bool has_prompts, bool is_wide) {
  const ChoiceResult& choice = *sequence.choice;
  const std::string name =
      has_prompts ? fmt::format("{}.{}", sequence.prompt->index, choice.index) : fmt::format("{}", choice.index);
  if (!is_wide) return name + " ";
  const std::string state = choice.is_finished     ? to_string(choice.finish_reason)
                            : choice.n_tokens == 0 ? "waiting"
                                                   : fmt::format("{}", choice.n_tokens);
  return fmt::format("{:>5} {:>9}  ", name, state);
}

std::string figures_line(const GenerationResult& result) {
  int n_running = 0, n_waiting = 0, n_finished = 0;
  int64_t n_tokens = 0;
  for (const PromptResult& prompt : result.prompts) {
    for (const ChoiceResult& choice : prompt.choices) {
      n_tokens += choice.n_tokens;
      ++(choice.is_finished ? n_finished : choice.n_tokens == 0 ? n_waiting : n_running);
    }
  }
  const double speed = result.total_s > 0 ? static_cast<double>(n_tokens) / result.total_s : 0;
  std::string text = fmt::format("{:.0f} tokens/s", speed);
  const SpeculationStats& stats = result.stats.speculation;
  if (stats.drafted > 0) {
    text += fmt::format(", acceptance {:.0f} %",
                        100.0 * static_cast<double>(stats.accepted) / static_cast<double>(stats.drafted));
  }
  text += fmt::format(", {} running, {} waiting, {} done, {:.1f} s", n_running, n_waiting, n_finished, result.total_s);
  // Before, only short ones have ended; and those that run when none waits may end at any time.
  const bool has_pace = n_waiting > 0 && n_finished >= n_running;
  return has_pace ? text + time_left_text(n_finished, n_running + n_waiting, result.total_s) : text;
}

}  // namespace

LiveFrame make_live_frame(const GenerationResult& result, TerminalSize size, bool has_color, bool shows_drafts) {
  LiveFrame frame;
  const int n_columns = std::max(1, size.n_columns - 1);  // the last column would wrap on some terminals
  const bool has_legend =
      shows_drafts && has_color && size.n_rows >= kRowsForLegend && n_columns >= 2 * kWideColumns - 20;
  const int n_rows = std::max(1, size.n_rows - 2 - int{has_legend});
  const bool is_wide = n_columns >= kWideColumns;
  for (const Sequence& sequence : visible_sequences(result, static_cast<size_t>(n_rows))) {
    std::string line = cut_to_columns(sequence_label(sequence, result.prompts.size() > 1, is_wide), n_columns);
    line += newest_text(*sequence.choice, n_columns - n_columns_of(line), has_color && shows_drafts);
    frame.lines.push_back(std::move(line));
  }
  if (has_legend) frame.lines.push_back(origin_legend(true));
  frame.lines.push_back(cut_to_columns(figures_line(result), n_columns));
  return frame;
}

std::string LiveView::go_to_top(TerminalSize size) const {
  const int n_rows = std::min(n_drawn_lines_, size.n_rows - 1);
  return n_rows > 0 ? fmt::format("\r\x1b[{}A", n_rows) : "\r";
}

void LiveView::update(const GenerationResult& result) {
  const auto now = std::chrono::steady_clock::now();
  if (is_drawn_ && now < next_at_) return;
  const TerminalSize size = output_->size();
  const LiveFrame frame = make_live_frame(result, size, output_->has_color(), shows_drafts_);
  std::string text = is_drawn_ ? go_to_top(size) : "\x1b[?25l";
  for (const std::string& line : frame.lines) text += line + "\x1b[K\n";
  text += "\x1b[J";
  if (!is_drawn_) set_cursor_hidden(true);
  is_drawn_ = true;
  n_drawn_lines_ = static_cast<int>(frame.lines.size());
  output_->write(text);
  const auto drawn_at = std::chrono::steady_clock::now();
  next_at_ = drawn_at + std::max<std::chrono::steady_clock::duration>(kRedrawInterval, (drawn_at - now) * kMaxShare);
}

void LiveView::clear() {
  if (!is_drawn_) return;
  // The destructor comes here too, perhaps for want of memory: strings this short need none.
  output_->write(go_to_top(output_->size()));
  output_->write("\x1b[J\x1b[?25h");
  set_cursor_hidden(false);
  is_drawn_ = false;
}

}  // namespace bass
