// bass features: what a main model says of texts, as a safetensors file for those who train a draft for it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/number_lists.h"
#include "cli/read_files.h"
#include "cli/save_file.h"
#include "cli/terminal_text.h"
#include "cli/validators.h"
#include "executor/cpu/feature_reader.h"
#include "model/fingerprint.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

struct Texts {
  std::vector<TokenId> tokens;
  std::vector<int64_t> starts{0};      // [n_texts + 1] into tokens
  std::vector<int64_t> top_starts{0};  // [n_texts + 1] into the positions that have likely next tokens
  int max_len = 0;

  [[nodiscard]] size_t n() const { return starts.size() - 1; }
  [[nodiscard]] std::span<const TokenId> text(size_t idx) const {
    return std::span(tokens).subspan(static_cast<size_t>(starts[idx]),
                                     static_cast<size_t>(starts[idx + 1] - starts[idx]));
  }
  /// The position in the text from which on it has likely next tokens.
  [[nodiscard]] int first_top(size_t idx) const {
    return static_cast<int>(starts[idx + 1] - starts[idx] - (top_starts[idx + 1] - top_starts[idx]));
  }
};

Status add_text(const std::string& line, const ModelFile& model, Texts* texts) {
  BASS_ASSIGN_OR_RETURN(const Json object, parse_user_json(line));
  const auto ids = object.is_object() ? object.find("tokens") : object.end();
  if (ids == object.end() || !ids->is_array() || ids->empty()) {
    return invalid_argument("must be an object like {\"tokens\": [1, 2, 3]}");
  }
  const auto n_tokens = static_cast<int64_t>(model.vocab.tokens.size());
  if (static_cast<int64_t>(ids->size()) > model.config.context_len) {
    return invalid_argument(
        fmt::format("{} tokens, the model was trained for {}", ids->size(), model.config.context_len));
  }
  for (const Json& id : *ids) {
    if (!id.is_number_integer() || id < 0 || id >= n_tokens) {
      return invalid_argument(fmt::format("token {}: must be a whole number from 0 to {}", id.dump(), n_tokens - 1));
    }
    texts->tokens.push_back(id.get<TokenId>());
  }
  const auto len = static_cast<int64_t>(ids->size());
  const Json first = object.value("from", Json(0));
  if (!first.is_number_integer() || first < 0 || first > len) {
    return invalid_argument(
        fmt::format("\"from\": {}: must be a position, a whole number from 0 to {}", first.dump(), len));
  }
  texts->starts.push_back(static_cast<int64_t>(texts->tokens.size()));
  texts->top_starts.push_back(texts->top_starts.back() + len - first.get<int64_t>());
  texts->max_len = std::max(texts->max_len, static_cast<int>(ids->size()));
  return ok_status();
}

Result<Texts> read_texts(const std::string& path, const ModelFile& model) {
  BASS_ASSIGN_OR_RETURN(const std::string input, read_input(path));
  const std::string name = input_name(path);
  Texts texts;
  BASS_RETURN_IF_ERROR(for_each_line(
      name, input, [&](const std::string& line, const std::string&) { return add_text(line, model, &texts); }));
  if (texts.n() == 0) {
    return invalid_argument(fmt::format("{}: holds no texts; a line is {{\"tokens\": [1, 2, 3]}}", name));
  }
  return texts;
}

/// A safetensors file whose header is written before its data.
class TensorFile {
 public:
  explicit TensorFile(SavedFile* file) : file_(file) {}

  void add(std::string_view name, std::string_view dtype, const std::vector<int64_t>& shape, int64_t element_bytes) {
    int64_t n_bytes = element_bytes;
    for (const int64_t size : shape) n_bytes *= size;
    header_[std::string(name)] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {end_, end_ + n_bytes}}};
    end_ += n_bytes;
  }

  /// metadata: texts by name.
  Status begin(const Json& metadata) {
    Json header{{"__metadata__", metadata}};
    header.update(header_);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t len = text.size();
    BASS_RETURN_IF_ERROR(file_->reserve(static_cast<int64_t>(sizeof(len) + len) + end_));
    BASS_RETURN_IF_ERROR(write(std::span(&len, 1)));
    return file_->write(text);
  }

  template <class T>
  Status write(std::span<const T> values) {
    return file_->write({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

 private:
  SavedFile* file_;
  Json header_ = Json::object();
  int64_t end_ = 0;
};

class FeaturesCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "features"; }
  [[nodiscard]] std::string_view summary() const override {
    return "write hidden states and likely next tokens of given texts, to train a draft with";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass features -m smollm2 --layers 3,15,27 -o features.safetensors < texts.jsonl   # {\"tokens\": [1, 2], "
           "\"from\": 0}\n"
           "Tensors: tokens I32 [N], starts I64 [texts + 1], taps BF16 [N, layers, d_model], and of the M positions "
           "at\n"
           "and behind each text's \"from\" (0 if it is not given) top_ids I32 [M, K], top_logprobs F32 [M, K]\n"
           "(temperature 1, the likeliest first) and top_starts I64 [texts + 1]. bass-draft uses it.";
  }

  void add_options(CLI::App* app) override {
    app->add_option("--texts", texts_, "JSONL file of token ids; - is standard input [-]")->type_name("FILE");
    app->add_option("--layers", layers_, "layers, from 0 on, whose output is written [none]")->type_name("LIST");
    app->add_option("--top", top_, "likely next tokens of each position, 0 to 1024 [64]")
        ->type_name("K")
        ->check(whole_number(0, kMaxTop));
    app->add_option("-o,--output", output_, "the file to write")->type_name("FILE");
    arguments_.add(app, {"model", "threads", "quantize"});
  }

  int run(Console* console) override { return finish(console, write(console)); }

 private:
  static constexpr int kMaxTop = 1024;

  Status write(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    if (output_.empty()) return invalid_argument("-o FILE: missing; name the file to write");
    BASS_RETURN_IF_ERROR(check_save_path("-o", output_));
    BASS_RETURN_IF_ERROR(check_not_read("-o", output_, {{options_.engine.model_path}, {texts_}}));
    const int n_threads = threads_or_all(options_.engine.n_threads);
    BASS_ASSIGN_OR_RETURN(const ModelFile model, load_named_model(options_));
    if (model.config.main) {
      return invalid_file(fmt::format("{}: is a draft; name its main model", model.gguf->path()));
    }
    BASS_ASSIGN_OR_RETURN(const std::vector<int32_t> layers, read_layers(model.config));
    BASS_ASSIGN_OR_RETURN(const Texts texts, read_texts(texts_, model));
    BASS_ASSIGN_OR_RETURN(const auto reader,
                          cpu::FeatureReader::create(model, {layers, top_, n_threads}, texts.max_len));
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<SavedFile> file, SavedFile::create(output_));
    BASS_RETURN_IF_ERROR(write_tensors(model, layers, top_, texts, reader.get(), file.get()));
    BASS_RETURN_IF_ERROR(file->keep());
    console->out.write(fmt::format("{}: {} texts, {} tokens\n", for_terminal(output_), texts.n(), texts.tokens.size()));
    return ok_status();
  }

  Result<std::vector<int32_t>> read_layers(const ModelConfig& config) const {
    std::vector<int32_t> layers;
    if (layers_.empty()) return layers;
    BASS_ASSIGN_OR_RETURN(layers, parse_list("--layers", layers_, config.n_layers - 1, 0));
    if (!std::is_sorted(layers.begin(), layers.end(), std::less_equal<>())) {
      return invalid_argument(fmt::format("--layers {}: must be in ascending order, each once", layers_));
    }
    return layers;
  }

  static Status write_tensors(const ModelFile& model, const std::vector<int32_t>& layers, int n_top, const Texts& texts,
                              cpu::FeatureReader* reader, SavedFile* file) {
    const auto n = static_cast<int64_t>(texts.tokens.size());
    const int64_t k = std::min(n_top, static_cast<int>(model.vocab.tokens.size()));
    TensorFile tensors(file);
    if (!layers.empty()) {
      tensors.add("taps", "BF16", {n, static_cast<int64_t>(layers.size()), model.config.d_model}, sizeof(uint16_t));
    }
    tensors.add("starts", "I64", {static_cast<int64_t>(texts.starts.size())}, sizeof(int64_t));
    tensors.add("top_starts", "I64", {static_cast<int64_t>(texts.top_starts.size())}, sizeof(int64_t));
    tensors.add("tokens", "I32", {n}, sizeof(TokenId));
    tensors.add("top_ids", "I32", {texts.top_starts.back(), k}, sizeof(TokenId));
    tensors.add("top_logprobs", "F32", {texts.top_starts.back(), k}, sizeof(float));
    BASS_RETURN_IF_ERROR(tensors.begin({{"bass.fingerprint", model_fingerprint(model.config, model.weights)},
                                        {"bass.layers", fmt::format("{}", fmt::join(layers, ","))}}));
    std::vector<TokenId> top_ids;
    std::vector<float> top_logprobs;
    for (size_t i = 0; i < texts.n(); ++i) {
      BASS_RETURN_IF_ERROR(check_interrupted());
      const cpu::TextFeatures& features = reader->read(texts.text(i), texts.first_top(i));
      BASS_RETURN_IF_ERROR(tensors.write(std::span(features.taps)));
      top_ids.insert(top_ids.end(), features.top_ids.begin(), features.top_ids.end());
      top_logprobs.insert(top_logprobs.end(), features.top_logprobs.begin(), features.top_logprobs.end());
    }
    BASS_RETURN_IF_ERROR(model.gguf->check_intact());
    BASS_RETURN_IF_ERROR(tensors.write(std::span(texts.starts)));
    BASS_RETURN_IF_ERROR(tensors.write(std::span(texts.top_starts)));
    BASS_RETURN_IF_ERROR(tensors.write(std::span(texts.tokens)));
    BASS_RETURN_IF_ERROR(tensors.write(std::span<const TokenId>(top_ids)));
    return tensors.write(std::span<const float>(top_logprobs));
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string texts_ = "-";
  std::string layers_;
  int top_ = 64;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> make_features_command() { return std::make_unique<FeaturesCommand>(); }

}  // namespace bass
