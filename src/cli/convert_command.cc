#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_store.h"
#include "cli/progress_line.h"
#include "cli/read_files.h"
#include "cli/save_file.h"
#include "cli/terminal_text.h"
#include "model/model_source.h"
#include "tensor/quantise.h"

namespace bass {
namespace {

/// "  45 %"
class Progress {
 public:
  Progress(Output* output, int64_t n_bytes) : line_(output), n_bytes_(std::max<int64_t>(n_bytes, 1)) {}

  void advance(size_t n_bytes) {
    n_done_ += static_cast<int64_t>(n_bytes);
    line_.show([this](int) { return fmt::format("{:3} %", n_done_ * 100 / n_bytes_); });
  }

 private:
  ProgressLine line_;
  int64_t n_bytes_;
  int64_t n_done_ = 0;
};

/// "291.5 M parameters: 210 tensors Q4_1, 61 F32"
std::string summary_of(const ModelSource& source) {
  constexpr double kMillion = 1e6;
  int64_t n_params = 0;
  std::map<std::string_view, int> n_tensors;
  for (const TensorRecipe& recipe : source.recipes) {
    n_params += recipe.n_rows() * recipe.row_len;
    ++n_tensors[dtype_info(recipe.type).name];
  }
  std::string types;
  for (const auto& [type, n] : n_tensors) types += fmt::format("{}{} tensors {}", types.empty() ? "" : ", ", n, type);
  return fmt::format("{:.1f} M parameters: {}", static_cast<double>(n_params) / kMillion, types);
}

class ConvertCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "convert"; }
  [[nodiscard]] std::string_view summary() const override { return "write a model as one GGUF file"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass convert SmolLM2-135M -o smollm2.gguf                  # a Hugging Face directory, precision kept\n"
           "  bass convert SmolLM2-135M -o smollm2.gguf --quantize q8_0\n"
           "  bass convert model-00001-of-00003.gguf -o model.gguf       # a split file in one\n"
           "The file takes its place when it is complete; one that is there already is replaced, and what\n"
           "earlier runs for the same place left behind when they were killed (FILE.*.bass-tmp) is removed.";
  }

  void add_options(CLI::App* app) override {
    app->add_option("IN", input_, "a GGUF file, or a Hugging Face directory, .safetensors file or index");
    app->add_option("-o,--output", output_, "the file to write")->type_name("FILE");
    arguments_.add(app, {"quantize", "threads"});
  }

  int run(Console* console) override { return finish(console, convert(console)); }

 private:
  Status convert(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    if (input_.empty()) return invalid_argument("IN: missing; name the model to convert, like bass convert DIRECTORY");
    if (output_.empty()) return invalid_argument("-o FILE: missing; name the file to write");
    BASS_ASSIGN_OR_RETURN(const std::string path, resolve_model(input_));
    BASS_RETURN_IF_ERROR(check_save_path("-o", output_));
    BASS_RETURN_IF_ERROR(check_not_read("-o", output_, {.models = {input_}, .files = {}, .with_folders = true}));
    BASS_ASSIGN_OR_RETURN(ModelSource source, open_model_source(path));
    const std::optional<DType> type = find_quantisable_type(options_.engine.quantize);
    const bool has_made_none = type.has_value() && quantise_recipes(*type, source.recipes) == 0;
    BASS_RETURN_IF_ERROR(write(source, console));
    console->out.write(fmt::format("{}: {}, {:.1f} MiB\n", for_terminal(output_), summary_of(source),
                                   static_cast<double>(gguf_bytes(source)) / (1024.0 * 1024.0)));
    if (has_made_none) {
      console->err.write(fmt::format(
          "note: --quantize {} has changed nothing: no matrix is F32, F16 or BF16 with rows of whole blocks\n",
          options_.engine.quantize));
    }
    return ok_status();
  }

  Status write(const ModelSource& source, Console* console) const {
    const int64_t n_bytes = gguf_bytes(source);
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<SavedFile> file, SavedFile::create(output_));
    BASS_RETURN_IF_ERROR(file->reserve(n_bytes));
    ThreadTeam team(threads_or_all(options_.engine.n_threads));
    Progress progress(&console->err, n_bytes);
    const auto write_part = [&](std::span<const std::byte> bytes) -> Status {
      BASS_RETURN_IF_ERROR(check_interrupted());
      progress.advance(bytes.size());
      return file->write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    };
    BASS_RETURN_IF_ERROR(write_gguf(source, &team, write_part));
    return file->keep();
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string input_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace bass
