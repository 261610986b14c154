// tokenize, detokenize and options: the commands that need no engine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "bass/tokenizer.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/model_store.h"
#include "text/chat_template.h"
#include "text/user_json.h"

namespace bass {
namespace {

Result<std::unique_ptr<FileTokenizer>> load_tokenizer(const GenerateOptions& options) {
  BASS_RETURN_IF_ERROR(check_has_model(options));
  BASS_ASSIGN_OR_RETURN(const std::string path, resolve_model(options.engine.model_path));
  return FileTokenizer::load(path);
}

class TokenizeCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "tokenize"; }
  [[nodiscard]] std::string_view summary() const override { return "print the token ids of a text as a JSON array"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass tokenize -m smollm2 -p 'Hello world'\n"
           "  bass tokenize -m smollm2 --no-parse-special < file.txt\n"
           "  bass tokenize -m smollm2 --chat -p 'Hello' | bass detokenize -m smollm2    # what the model reads";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model", "prompt", "file", "chat", "system", "chat_template_kwargs"});
    app->add_flag("--add-special", add_special_, "add BOS and EOS where the model wants them");
    app->add_flag("--parse-special,!--no-parse-special", parse_special_,
                  "take the text of special tokens as those tokens [on]");
  }
  int run(Console* console) override {
    const Result<std::vector<TokenId>> ids = tokenize();
    if (!ids.ok()) return fail(console, ids.status());
    return finish(console, nlohmann::json(ids.value()).dump() + "\n");
  }

 private:
  Result<std::vector<TokenId>> tokenize() {
    GenerateOptions options;
    BASS_RETURN_IF_ERROR(arguments_.apply(&options));
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<FileTokenizer> tokenizer, load_tokenizer(options));
    BASS_ASSIGN_OR_RETURN(std::string text, read_text(options));
    if (!options.request.chat) {
      if (options.request.chat_template_kwargs)
        return invalid_argument("--chat-template-kwargs: belong to --chat; leave them out");
      return tokenizer->encode(text, add_special_, parse_special_);
    }
    if (add_special_ || !parse_special_) {
      return invalid_argument(
          "--chat: the chat template says which special tokens there are; leave out --add-special and "
          "--no-parse-special");
    }
    return tokenizer->encode_chat(conversation_of(options.request.system, std::move(text)),
                                  options.request.chat_template_kwargs.value_or(""));
  }

  TableArguments arguments_;
  bool add_special_ = false;
  bool parse_special_ = true;
};

constexpr std::string_view kBlanks = " \t\r\n";

Status bad_id(std::string_view word) {
  return invalid_argument(fmt::format("token id '{}': must be a whole number >= 0", word.substr(0, 40)));
}

/// What tokenize prints.
Result<std::vector<TokenId>> parse_json_ids(std::string_view text) {
  constexpr std::string_view kNoArray = "the token ids: not a valid JSON array like [1, 2]";
  const Result<nlohmann::ordered_json> array = parse_user_json(text);
  if (!array.ok()) return invalid_argument(fmt::format("{}: {}", kNoArray, array.status().message()));
  if (!array.value().is_array()) return invalid_argument(std::string(kNoArray));
  std::vector<TokenId> ids;
  for (const auto& element : array.value()) {
    const bool is_id = element.is_number_unsigned() && element.get<uint64_t>() <= std::numeric_limits<TokenId>::max();
    if (!is_id) return bad_id(element.dump());
    ids.push_back(element.get<TokenId>());
  }
  return ids;
}

/// A JSON array, or ids separated by blanks and commas.
Result<std::vector<TokenId>> parse_ids(std::string_view text) {
  constexpr std::string_view kSeparators = " \t\r\n,";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first != std::string_view::npos && text[first] == '[') return parse_json_ids(text);
  std::vector<TokenId> ids;
  while (true) {
    const size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    TokenId id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc{} || stop != word.data() + word.size() || id < 0) {
      return bad_id(word);
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

class DetokenizeCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "detokenize"; }
  [[nodiscard]] std::string_view summary() const override { return "print the bytes of token ids"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass detokenize -m smollm2 19556 905\n"
           "  bass tokenize -m smollm2 -p 'Hello' | bass detokenize -m smollm2";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model", "file"});
    app->add_option("IDS", ids_, "token ids; without any they are read from the file or standard input");
  }
  int run(Console* console) override {
    const Result<std::string> text = detokenize();
    if (!text.ok()) return fail(console, text.status());
    return finish(console, text.value());  // byte for byte: no line feed is added
  }

 private:
  Result<std::string> detokenize() {
    GenerateOptions options;
    BASS_RETURN_IF_ERROR(arguments_.apply(&options));
    std::string text;
    for (const std::string& word : ids_) text += word + " ";
    const bool has_ids = !ids_.empty();
    if (has_ids && !options.file.empty()) return invalid_argument("ids and -f: give one of them");
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<FileTokenizer> tokenizer, load_tokenizer(options));
    if (!has_ids) {
      BASS_ASSIGN_OR_RETURN(text, read_text(options));
    }
    BASS_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, parse_ids(text));
    return tokenizer->decode(ids);
  }

  TableArguments arguments_;
  std::vector<std::string> ids_;
};

class OptionsCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "options"; }
  [[nodiscard]] std::string_view summary() const override { return "print the options of generate as Markdown"; }
  [[nodiscard]] std::string_view examples() const override { return "  bass options > options.md"; }
  void add_options(CLI::App*) override {}
  int run(Console* console) override { return finish(console, options_markdown()); }
};

}  // namespace

std::unique_ptr<Command> make_tokenize_command() { return std::make_unique<TokenizeCommand>(); }
std::unique_ptr<Command> make_detokenize_command() { return std::make_unique<DetokenizeCommand>(); }
std::unique_ptr<Command> make_options_command() { return std::make_unique<OptionsCommand>(); }

}  // namespace bass
