#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include "cli/interrupt.h"
#include "text/utf8.h"

namespace bass {

const std::string_view kEditorHelp =
    "Enter sends the message. Alt-Enter, or \\ and Enter, begins a new line;\n"
    "what is pasted stays one message. Up and Down bring back what was sent,\n"
    "Ctrl-R searches it; Ctrl-A, E, K, U, W and Y edit as in a shell.\n";

namespace {

constexpr std::string_view kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";
// Functions of ours cannot call libedit's own, but can type the key that one is bound to. This one sends the message.
constexpr const wchar_t* kSend = L"\x1e";
constexpr int kHistorySize = 1000;

std::string to_utf8(std::wstring_view text) {
  std::string bytes;
  for (const wchar_t c : text) append_utf8(static_cast<char32_t>(c), bytes);
  return bytes;
}

/// With one line feed for each line's end: terminals send a carriage return in its place.
std::wstring with_line_feeds(std::wstring_view text) {
  std::wstring result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_return = text[i] == L'\r';
    if (text[i] != L'\0') result += is_return ? L'\n' : text[i];  // a NUL would end the text
    if (is_return && i + 1 < text.size() && text[i + 1] == L'\n') ++i;
  }
  return result;
}

struct KeyMeaning {
  std::string_view sequence;  // after ESC [ or ESC O
  const wchar_t* key;
};
constexpr KeyMeaning kMeanings[] = {
    {"A", L"\x10"},
    {"B", L"\x0e"},
    {"C", L"\x06"},
    {"D", L"\x02"},
    {"H", L"\x01"},
    {"F", L"\x05"},
    {"1~", L"\x01"},
    {"4~", L"\x05"},
    {"7~", L"\x01"},
    {"8~", L"\x05"},
    {"3~", L"\x1f"},
    {"1;5C",
     L"\x1b"
     "f"},
    {"1;5D",
     L"\x1b"
     "b"},
    {"1;3C",
     L"\x1b"
     "f"},
    {"1;3D",
     L"\x1b"
     "b"},
};

}  // namespace

/// The functions behind keys, in libedit's terms: each gets the editor and gives back what is to be drawn.
struct LineEditor::Keys {
  static LineEditor& self(EditLine* editor) {
    void* data = nullptr;
    el_wget(editor, EL_CLIENTDATA, &data);
    return *static_cast<LineEditor*>(data);
  }

  static int read(EditLine* editor, wchar_t* c) {
    const std::optional<char32_t> key = self(editor).keys_.next();
    *c = static_cast<wchar_t>(key.value_or(0));
    return key.has_value() ? 1 : -1;
  }

  static wchar_t* prompt(EditLine*) {
    static wchar_t text[] = L"> ";
    return text;
  }

  static unsigned char insert(EditLine* editor, const wchar_t* text) {
    return el_winsertstr(editor, text) == 0 ? CC_REFRESH : CC_ERROR;
  }

  static unsigned char new_line(EditLine* editor, wint_t) { return insert(editor, L"\n"); }

  static unsigned char enter(EditLine* editor, wint_t) {
    const LineInfoW* line = el_wline(editor);
    const bool is_continued =
        line->cursor == line->lastchar && line->cursor > line->buffer && line->cursor[-1] == L'\\';
    if (is_continued) {
      el_wdeletestr(editor, 1);
      return insert(editor, L"\n");
    }
    el_wpush(editor, kSend);
    return CC_NORM;
  }

  static unsigned char cancel(EditLine* editor, wint_t) {
    self(editor).is_cancelled_ = true;
    el_wpush(editor, kSend);  // leaves the line where it stands and goes below it
    return CC_NORM;
  }

  static unsigned char erase_next(EditLine* editor, wint_t) {
    const LineInfoW* line = el_wline(editor);
    if (line->cursor == line->lastchar) return CC_ERROR;
    el_cursor(editor, 1);
    el_wdeletestr(editor, 1);
    return CC_REFRESH;
  }

  static unsigned char erase_next_or_end(EditLine* editor, wint_t key) {
    const LineInfoW* line = el_wline(editor);
    return line->buffer == line->lastchar ? CC_EOF : erase_next(editor, key);
  }

  /// What the terminal does with the key in its own mode: the signal goes to all of its foreground.
  static unsigned char signal(EditLine* editor, int number) {
    LineEditor& me = self(editor);
    me.send(kPasteOff);
    el_wset(editor, EL_PREP_TERM, 0);
    kill(0, number);
    if (must_end()) return CC_EOF;
    el_wset(editor, EL_PREP_TERM, 1);
    me.send(kPasteOn);
    el_wset(editor, EL_REFRESH);
    return CC_NORM;
  }
  static unsigned char suspend(EditLine* editor, wint_t) { return signal(editor, SIGTSTP); }
  static unsigned char quit(EditLine* editor, wint_t) { return signal(editor, SIGQUIT); }

  static unsigned char paste(EditLine* editor) {
    std::wstring text;
    while (!text.ends_with(kPasteEnd)) {
      const std::optional<char32_t> key = self(editor).keys_.next();
      if (!key.has_value()) return CC_EOF;
      if (*key == kCtrlC) return cancel(editor, kCtrlC);  // the way out, should the end be lost
      text += static_cast<wchar_t>(*key);
    }
    text.resize(text.size() - kPasteEnd.size());
    text = with_line_feeds(text);
    return text.empty() ? CC_NORM : insert(editor, text.c_str());
  }

  /// ESC [ or ESC O has come: reads the rest of what a key sends, so that nothing of keys without a meaning is taken
  /// for text.
  static unsigned char sequence(EditLine* editor, wint_t) {
    std::string rest;
    while (rest.empty() || rest.back() < 0x40) {
      const std::optional<char32_t> key = self(editor).keys_.next();
      if (!key.has_value()) return CC_EOF;
      if (*key < 0x20 || *key > 0x7e) return CC_ERROR;
      rest += static_cast<char>(*key);
    }
    if (rest == "200~") return paste(editor);
    for (const KeyMeaning& meaning : kMeanings) {
      if (meaning.sequence == rest) el_wpush(editor, meaning.key);
    }
    return CC_NORM;
  }
};

void LineEditor::EndEditor::operator()(editline* editor) const { el_end(editor); }
void LineEditor::EndHistory::operator()(historyW* history) const { history_wend(history); }

LineEditor::LineEditor(const Output& err) : err_(err), keys_(STDIN_FILENO, [this] { follow_size(); }) {}
LineEditor::~LineEditor() = default;

std::unique_ptr<LineEditor> LineEditor::create(const Output& err) {
  if (isatty(STDIN_FILENO) == 0 || !err.has_cursor()) return nullptr;
  std::unique_ptr<LineEditor> editor(new LineEditor(err));
  return editor->start() ? std::move(editor) : nullptr;
}

bool LineEditor::start() {
  const int fd = dup(STDERR_FILENO);  // a stream of its own: stderr's writes each character by itself
  out_.reset(fd < 0 ? nullptr : fdopen(fd, "w"));
  nowhere_.reset(std::fopen("/dev/null", "we"));
  history_.reset(history_winit());
  if (out_ == nullptr || nowhere_ == nullptr || history_ == nullptr) return false;
  HistEventW event;
  history_w(history_.get(), &event, H_SETSIZE, kHistorySize);
  history_w(history_.get(), &event, H_SETUNIQUE, 1);

  // What it has to say is that it does not know the terminal.
  editor_.reset(el_init_fd("bass", stdin, out_.get(), nowhere_.get(), STDIN_FILENO, fileno(out_.get()), -1));
  if (editor_ == nullptr) return false;
  EditLine* el = editor_.get();
  char* cursor_up = nullptr;
  if (el_wget(el, EL_GETTC, "up", &cursor_up, nullptr) != 0 || cursor_up == nullptr) el_wset(el, EL_TERMINAL, "xterm");
  el_wset(el, EL_CLIENTDATA, this);
  el_wset(el, EL_SIGNAL, 0);
  el_wset(el, EL_EDITOR, L"emacs");
  el_wset(el, EL_PROMPT, &Keys::prompt);
  el_wset(el, EL_HIST, history_w, history_.get());
  el_wset(el, EL_GETCFN, &Keys::read);
  // Keys come as they are: Ctrl-C as a character, carriage returns and line feeds apart.
  el_wset(el, EL_SETTY, L"-d", L"-isig", L"-icrnl", L"-inlcr", nullptr);
  bind_keys();
  return true;
}

void LineEditor::bind_keys() {
  struct Function {
    const wchar_t* name;
    unsigned char (*function)(EditLine*, wint_t);
    std::array<const wchar_t*, 2> keys;
  };
  static constexpr Function kFunctions[] = {
      {L"bass-enter", &Keys::enter, {L"\\r", L"\\n"}},
      {L"bass-new-line", &Keys::new_line, {L"\\e\\r", L"\\e\\n"}},
      {L"bass-cancel", &Keys::cancel, {L"^C"}},
      {L"bass-suspend", &Keys::suspend, {L"^Z"}},
      {L"bass-quit", &Keys::quit, {L"^\\"}},
      {L"bass-erase-next", &Keys::erase_next, {L"^_"}},
      {L"bass-erase-next-or-end", &Keys::erase_next_or_end, {L"^D"}},
      {L"bass-sequence", &Keys::sequence, {L"\\e[", L"\\eO"}},
  };
  EditLine* el = editor_.get();
  for (const Function& f : kFunctions) {
    el_wset(el, EL_ADDFN, f.name, f.name, f.function);
    for (const wchar_t* key : f.keys) {
      if (key != nullptr) el_wset(el, EL_BIND, key, f.name, nullptr);
    }
  }
  static constexpr std::pair<const wchar_t*, const wchar_t*> kOwn[] = {
      {kSend, L"ed-newline"},         {L"^W", L"ed-delete-prev-word"}, {L"^U", L"vi-kill-line-prev"},
      {L"\\t", L"ed-insert"},         {L"^P", L"ed-prev-history"},     {L"^N", L"ed-next-history"},
      {L"^R", L"em-inc-search-prev"},
  };
  for (const auto& [key, name] : kOwn) el_wset(el, EL_BIND, key, name, nullptr);
}

void LineEditor::send(std::string_view sequence) {
  std::fwrite(sequence.data(), 1, sequence.size(), out_.get());
  std::fflush(out_.get());
}

void LineEditor::remember(const wchar_t* message) {
  HistEventW event;
  history_w(history_.get(), &event, H_ENTER, message);
}

void LineEditor::follow_size() {
  const TerminalSize size = err_.size();
  if (size.n_columns == size_.n_columns && size.n_rows == size_.n_rows) return;
  size_ = size;
  send("\r\x1b[J");  // where libedit then takes the cursor to be
  el_resize(editor_.get());
  el_wset(editor_.get(), EL_REFRESH);
}

Result<std::optional<std::string>> LineEditor::next() {
  is_cancelled_ = false;
  size_ = err_.size();
  el_wset(editor_.get(), EL_PREP_TERM, 1);  // libedit would do so after the prompt, and keys that come at once be lost
  keys_.take_typed_ahead();
  send(kPasteOn);
  int n_chars = 0;
  const wchar_t* line = el_wgets(editor_.get(), &n_chars);
  std::wstring message(line == nullptr ? L"" : line, line == nullptr || n_chars < 0 ? 0 : static_cast<size_t>(n_chars));
  send(kPasteOff);
  if (is_cancelled_ || must_end()) return Status(StatusCode::kCancelled, "interrupted while a message was written");
  if (line == nullptr) return std::optional<std::string>();
  while (message.ends_with(L'\n')) message.pop_back();
  if (message.find_first_not_of(L" \t\n") != std::wstring::npos) remember(message.c_str());
  return std::optional(to_utf8(message));
}

}  // namespace bass
