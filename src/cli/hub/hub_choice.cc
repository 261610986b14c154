#include "cli/hub/hub_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "io/safetensors.h"
#include "text/plain_text.h"
#include "text/suggest.h"

namespace bass {
namespace {

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kGgufEnding = ".gguf";
constexpr std::array<std::string_view, 11> kSmallNames{"config.json",
                                                       "generation_config.json",
                                                       "tokenizer.json",
                                                       "tokenizer.model",
                                                       "tokenizer_config.json",
                                                       "special_tokens_map.json",
                                                       "added_tokens.json",
                                                       "vocab.json",
                                                       "merges.txt",
                                                       "chat_template.jinja",
                                                       "chat_template.json"};

/// A model in GGUF: a file, or the parts of a split one.
struct GgufModel {
  std::string stem;  ///< the path without part number and ending
  size_t n_parts = 1;
  std::map<size_t, const HubFile*> parts;  ///< by number, from 1

  [[nodiscard]] std::string base() const { return stem.substr(stem.rfind('/') + 1); }
};

std::optional<size_t> read_number(std::string_view digits) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// Takes "-00002-of-00003" off the end of a stem.
std::pair<size_t, size_t> take_part_number(std::string_view* stem) {
  constexpr std::string_view kForm = "-00001-of-00001";
  constexpr size_t kDigits = 5, kSecond = 10;
  if (stem->size() <= kForm.size()) return {1, 1};
  const std::string_view end = stem->substr(stem->size() - kForm.size());
  const std::optional<size_t> part = read_number(end.substr(1, kDigits)), n_parts = read_number(end.substr(kSecond));
  const bool is_form = end[0] == '-' && end.substr(kDigits + 1, 4) == "-of-" && part.has_value() && n_parts.has_value();
  if (!is_form || *part < 1 || *part > *n_parts) return {1, 1};
  stem->remove_suffix(kForm.size());
  return {*part, *n_parts};
}

std::vector<GgufModel> gguf_models(const HubListing& listing) {
  std::map<std::pair<std::string, size_t>, GgufModel> models;
  for (const HubFile& file : listing.files) {
    if (!file.name.ends_with(kGgufEnding)) continue;
    std::string_view stem(file.name);
    stem.remove_suffix(kGgufEnding.size());
    const auto [part, n_parts] = take_part_number(&stem);
    GgufModel& model = models[{std::string(stem), n_parts}];
    model.stem = stem;
    model.n_parts = n_parts;
    model.parts[part] = &file;
  }
  std::vector<GgufModel> list;
  for (auto& [key, model] : models) list.push_back(std::move(model));
  return list;
}

/// Beside a model that sees pictures lies the part that sees; it is no model.
bool is_projector(const GgufModel& model) { return lower_case(model.base()).starts_with("mmproj"); }

/// Whether the kind stands in the name as a word: Q4_K is not in "x-Q4_K_M".
bool has_kind(const GgufModel& model, std::string_view kind) {
  const std::string name = lower_case(model.base()), word = lower_case(kind);
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_letter(name[at - 1]);
    if (begins && (end == name.size() || (!is_letter(name[end]) && name[end] != '_'))) return true;
  }
  return false;
}

/// The last word of a name, which is the kind by custom.
std::string kind_of(const GgufModel& model) {
  const std::string base = model.base();
  return base.substr(base.find_last_of("-.") + 1);
}

std::string description(const GgufModel& model) {
  int64_t n_bytes = 0;
  for (const auto& [part, file] : model.parts) n_bytes += std::max<int64_t>(file->n_bytes, 0);
  const std::string parts = model.n_parts == 1 ? "" : fmt::format("{} parts, ", model.n_parts);
  return fmt::format("{} ({}{})", model.parts.begin()->second->name, parts, bytes_text(n_bytes));
}

std::string descriptions(const std::vector<GgufModel>& models) {
  std::vector<std::string> texts;
  texts.reserve(models.size());
  for (const GgufModel& model : models) texts.push_back(description(model));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Result<HubChoice> choose_model(const GgufModel& model, const HubName& name) {
  HubChoice choice;
  for (size_t part = 1; part <= model.n_parts; ++part) {
    const auto found = model.parts.find(part);
    if (found == model.parts.end()) {
      return invalid_file(fmt::format("{}: {} is not whole: part {} of {} is missing", name.text(),
                                      model.parts.begin()->second->name, part, model.n_parts));
    }
    choice.files.push_back(*found->second);
  }
  choice.model = choice.files.front().name;
  return choice;
}

Status several(const HubName& name, const std::vector<GgufModel>& models) {
  return invalid_argument(fmt::format("{}: that can be {} files; say which as {}:FILE (or its kind, like {}:{}): {}",
                                      name.text(), models.size(), name.repo, name.repo, kind_of(models.front()),
                                      descriptions(models)));
}

Status none_such(const HubListing& listing, const HubName& name, const std::vector<GgufModel>& models) {
  if (listing.find(name.file) != nullptr) {
    return invalid_argument(
        fmt::format("{}: is no GGUF file; {}:safetensors takes the whole checkpoint", name.text(), name.repo));
  }
  std::vector<std::string> words;
  for (const HubFile& file : listing.files) words.push_back(file.name);
  for (const GgufModel& model : models) words.push_back(kind_of(model));
  const std::string meant = nearest(name.file, words);
  return invalid_argument(fmt::format("{}: {} has no such file{}; it has {}", name.text(), name.repo,
                                      meant.empty() ? "" : fmt::format(" (did you mean {}:{}?)", name.repo, meant),
                                      models.empty() ? "no GGUF file" : descriptions(models)));
}

Result<HubChoice> choose_named(const HubListing& listing, const HubName& name, const std::vector<GgufModel>& models) {
  std::vector<GgufModel> matches;
  for (const GgufModel& model : models) {
    for (const auto& [part, file] : model.parts) {
      if (file->name == name.file) return choose_model(model, name);
    }
    if (!is_projector(model) && has_kind(model, name.file)) matches.push_back(model);
  }
  if (matches.empty()) return none_such(listing, name, models);
  return matches.size() == 1 ? choose_model(matches.front(), name) : Result<HubChoice>(several(name, matches));
}

Result<HubChoice> choose_checkpoint(const HubListing& listing, const HubName& name) {
  const HubFile* index = listing.find(kWeightIndexName);
  const HubFile* single = listing.find(kSingleName);
  const auto pickle = std::ranges::find_if(listing.files, is_pickle, &HubFile::name);
  if (index == nullptr && single == nullptr && pickle != listing.files.end()) {
    return invalid_argument(fmt::format("{}: has no {}, only {}: {}, then name that directory", name.text(),
                                        kSingleName, pickle->name, pickle_mend(name.repo)));
  }
  if ((index == nullptr && single == nullptr) || listing.find(kConfigName) == nullptr) {
    return invalid_argument(
        fmt::format("{}: has neither GGUF files nor a checkpoint in safetensors ({} with {}), which "
                    "is what BASS runs",
                    name.text(), kSingleName, kConfigName));
  }
  HubChoice choice;
  for (const std::string_view small : kSmallNames) {
    if (const HubFile* file = listing.find(small); file != nullptr) choice.files.push_back(*file);
  }
  choice.has_index = index != nullptr;  // as our loader prefers it
  choice.files.push_back(choice.has_index ? *index : *single);
  return choice;
}

}  // namespace

Result<HubChoice> choose_hub_files(const HubListing& listing, const HubName& name) {
  if (lower_case(name.file) == "safetensors") return choose_checkpoint(listing, name);
  std::vector<GgufModel> models = gguf_models(listing);
  if (!name.file.empty()) return choose_named(listing, name, models);
  std::erase_if(models, is_projector);
  if (models.empty()) return choose_checkpoint(listing, name);
  return models.size() == 1 ? choose_model(models.front(), name) : Result<HubChoice>(several(name, models));
}

Status add_indexed_files(const HubListing& listing, std::string_view index, HubChoice* choice) {
  const auto located = [](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", kWeightIndexName, status.message()));
  };
  const Result<std::vector<std::string>> names = parse_weight_index(index);
  if (!names.ok()) return located(names.status());
  for (const std::string& name : names.value()) {
    const HubFile* file = listing.find(name);
    if (file == nullptr) return located(invalid_file(fmt::format("{}, which it names, is missing", name)));
    choice->files.push_back(*file);
  }
  choice->has_index = false;
  return ok_status();
}

}  // namespace bass
