// Loading: models, memory budget, executor, thread.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <string_view>
#include <utility>

#include "base/caught_status.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/thread_team.h"
#include "engine/device_choice.h"
#include "engine/engine_core.h"
#include "engine/kept_costs.h"
#include "engine/machine.h"
#include "engine/options.h"
#include "engine/validation.h"
#include "model/fingerprint.h"
#include "tensor/quantise.h"

namespace bass {
namespace {

// Share of the free memory that the KV caches may take when --kv-memory is not given.
constexpr int64_t kDefaultKvShare = 4;
constexpr int64_t kGpuKvShare = 2;  // of a GPU's, which no other program needs
constexpr int64_t kIdleShare = 4;   // of the KV caches, for texts that have ended

ModelInfo describe(const ModelFile& model, KvKind kv) {
  ModelInfo info;
  info.path = model.gguf->path();
  info.name = model.config.name;
  info.architecture = model.config.architecture;
  info.n_layers = model.config.n_layers;
  info.d_model = model.config.d_model;
  info.n_heads = model.config.n_heads;
  info.n_kv_heads = model.config.n_kv_heads;
  info.head_dim = model.config.head_dim;
  info.vocab_size = model.config.vocab_size;
  info.context_len = model.config.context_len;
  info.is_synthetic = model.config.is_synthetic;
  info.n_params = model.n_params;
  info.file_bytes = model.file_bytes;
  info.kv_bytes_per_token = cpu_page_bytes(model.config, kv) / kCpuPageLen;
  return info;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::load(const EngineOptions& options) {
  try {
    BASS_ASSIGN_OR_RETURN(std::unique_ptr<EngineCore> engine, EngineCore::create(options));
    return std::unique_ptr<Engine>(std::move(engine));
  } catch (...) {
    return caught_status(options.model_path);
  }
}

Result<std::unique_ptr<EngineCore>> EngineCore::create(const EngineOptions& options, const ExecutorWrapper& wrap) {
  BASS_RETURN_IF_ERROR(validate_options(options));
  BASS_ASSIGN_OR_RETURN(OpenedDevice device, open_named_device(options.device));
  // A cache of floats needs a GPU: why there is none is more than that the CPU has no such cache.
  if (device.gpu == nullptr && !device.note.empty() && is_float(options.kv)) {
    return unavailable(fmt::format("--kv-type {}: {}", kv_type_name(options.kv), device.note));
  }
  const bool may_fall_back = options.device == "auto" && device.gpu != nullptr;
  Result<std::unique_ptr<EngineCore>> engine = create_on(std::move(device), options, wrap);
  // The GPU has too little memory, or lacks what this model needs. What is wrong with a file, it is here too; what is
  // wrong with the program must be told.
  if (engine.ok() || !may_fall_back || engine.status().code() == StatusCode::kInternal) return engine;
  OpenedDevice cpu{.name = "cpu", .note = fmt::format("running on the CPU: {}", engine.status().message())};
  Result<std::unique_ptr<EngineCore>> on_cpu = create_on(std::move(cpu), options, wrap);
  return on_cpu.ok() ? std::move(on_cpu) : std::move(engine);
}

Result<std::unique_ptr<EngineCore>> EngineCore::create_on(OpenedDevice device, const EngineOptions& options,
                                                          const ExecutorWrapper& wrap) {
  std::unique_ptr<EngineCore> engine(new EngineCore());
  engine->options_ = options;
  engine->options_.device = device.name;
  engine->device_note_ = device.note;
  engine->gpu_ = std::move(device.gpu);
  BASS_RETURN_IF_ERROR(engine->load_models());
  BASS_RETURN_IF_ERROR(engine->make_executor(wrap));
  engine->weights_from_ = nullptr;
  engine->thread_ = std::thread([core = engine.get()] { core->loop(); });
  return engine;
}

EngineCore::~EngineCore() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  keep_costs();
}

void EngineCore::read_costs() {
  // Steps of traces and scripts cost what no others do.
  if (options_.costs_folder.empty() || options_.trace != nullptr || options_.scripted_acceptance) return;
  const std::string draft =
      draft_ ? fmt::format("{} ({} bytes)", draft_->config.name, draft_->weight_bytes) : std::string("no draft");
  costs_key_ =
      fmt::format("{} ({} bytes), {}, {} {} x {}, attention {} (apart, drafts too) kv {} activations {}",
                  model_fingerprint(main_->config, main_->weights), main_->weight_bytes, draft, processor_name(),
                  executor_->isa_name(), options_.n_threads, static_cast<int>(options_.attention),
                  static_cast<int>(options_.kv), static_cast<int>(options_.activations));
  costs_ = read_kept_costs(kept_costs_path(options_.costs_folder, costs_key_), costs_key_);
  costs_kept_ = Clock::now();
}

// What fails here is not worth a word.
void EngineCore::keep_costs() const {
  constexpr int64_t kMinSteps = 64;
  if (costs_key_.empty() || n_decode_steps_ < kMinSteps) return;
  try {
    bass::keep_costs(costs_, kept_costs_path(options_.costs_folder, costs_key_), costs_key_);
  } catch (const std::exception&) {
  }
}

// A server may run for months and then be killed.
void EngineCore::keep_costs_at_times() {
  constexpr double kIntervalS = 600;
  const Clock::time_point now = Clock::now();
  if (seconds_between(costs_kept_, now) < kIntervalS) return;
  costs_kept_ = now;
  keep_costs();
}

// Made tensors are gone when they are packed, so a file is shared with its weights or not at all.
void EngineCore::take_shared_models() {
  const auto* from = static_cast<const EngineCore*>(std::exchange(options_.weights_from, nullptr));
  constexpr std::string_view kCpu = "cpu";
  if (from == nullptr || options_.device != kCpu || from->options_.device != kCpu) return;
  if (from->options_.quantize != options_.quantize || from->options_.model_path != options_.model_path) return;
  main_ = from->main_;
  if (!options_.draft_path.empty() && from->options_.draft_path == options_.draft_path) draft_ = from->draft_;
  weights_from_ = from;
}

bool EngineCore::is_shared(const ModelFile& file) const {
  return weights_from_ != nullptr && (&file == weights_from_->main_.get() || &file == weights_from_->draft_.get());
}

Result<std::shared_ptr<const ModelFile>> EngineCore::open_file(const std::string& path) const {
  const std::optional<DType> quantise = find_quantisable_type(options_.quantize);
  BASS_ASSIGN_OR_RETURN(ModelFile file, load_model_file(path, quantise, options_.n_threads));
  return std::make_shared<const ModelFile>(std::move(file));
}

Status EngineCore::load_models() {
  take_shared_models();
  if (!main_) {
    BASS_ASSIGN_OR_RETURN(main_, open_file(options_.model_path));
  }
  if (main_->config.main) {
    return invalid_file(
        fmt::format("{}: is a draft for '{}' and generates nothing by itself; give it with -d, and its "
                    "main model with -m",
                    options_.model_path, main_->config.main->name));
  }
  if (!draft_ && !options_.draft_path.empty()) {
    BASS_ASSIGN_OR_RETURN(draft_, open_file(options_.draft_path));
    BASS_RETURN_IF_ERROR(check_draft_fits(*main_, *draft_));
  }
  BASS_ASSIGN_OR_RETURN(tokenizer_, Tokenizer::create(main_->vocab));
  constraints_ = std::make_unique<ConstraintCache>(*tokenizer_, static_cast<int>(main_->vocab.tokens.size()));
  measure_vocabulary();
  options_.n_threads = threads_or_all(options_.n_threads);
  if (options_.context_len.value_or(0) > main_->config.context_len) {
    return invalid_argument(fmt::format("--context {}: {} was trained for {} tokens; give at most that",
                                        *options_.context_len, options_.model_path, main_->config.context_len));
  }
  return ok_status();
}

void EngineCore::measure_vocabulary() {
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    max_token_bytes_ = std::max(max_token_bytes_, static_cast<int64_t>(tokenizer_->token_bytes(id).size()));
  }
}

Status EngineCore::check_script() const {
  if (!options_.scripted_acceptance) return ok_status();
  if (!(*options_.scripted_acceptance >= 0 && *options_.scripted_acceptance <= 1)) {
    return invalid_argument(
        fmt::format("scripted_acceptance is {}; give a chance from 0 to 1", *options_.scripted_acceptance));
  }
  return options_.trace == nullptr ? ok_status() : invalid_argument("drafts are traced or scripted, not both");
}

ExecutorOptions EngineCore::executor_options(int n_pages) const {
  ExecutorOptions executor;
  executor.n_threads = options_.n_threads;
  executor.max_batch = options_.max_batch;
  executor.max_step_tokens = options_.max_step_tokens;
  executor.attention = options_.attention;
  executor.activations = options_.activations;
  executor.kv = options_.kv;
  executor.n_main_pages = n_pages;
  executor.n_draft_pages = draft_ ? n_pages : 0;
  executor.context_len = *options_.context_len;
  executor.profile = options_.profile;
  executor.traces_drafts = options_.trace != nullptr;
  executor.scripted_acceptance = options_.scripted_acceptance;
  if (weights_from_ != nullptr) executor.weights_from = weights_from_->executor_.get();
  return executor;
}

Status EngineCore::make_executor(const ExecutorWrapper& wrap) {
  BASS_RETURN_IF_ERROR(check_script());
  BASS_ASSIGN_OR_RETURN(const ModelMemory memory, model_memory());
  BASS_RETURN_IF_ERROR(check_memory(memory));
  BASS_ASSIGN_OR_RETURN(const CachePages pages, choose_n_pages(memory));
  const ExecutorOptions executor = executor_options(pages.n);
  if (gpu_) {
    BASS_ASSIGN_OR_RETURN(executor_, make_gpu_executor(std::move(gpu_), *main_, draft_.get(), executor));
  } else {
    BASS_ASSIGN_OR_RETURN(executor_, make_cpu_executor(*main_, draft_.get(), executor));
  }
  if (wrap) executor_ = wrap(std::move(executor_));
  BASS_RETURN_IF_ERROR(main_->gguf->check_intact());  // the weights were read just now
  if (draft_) BASS_RETURN_IF_ERROR(draft_->gguf->check_intact());
  read_costs();
  make_scheduler(pages, executor.max_rows());
  plan_.main_copies.reserve(static_cast<size_t>(options_.max_batch));  // steps are not to allocate
  plan_.draft_copies.reserve(static_cast<size_t>(options_.max_batch));
  return ok_status();
}

// It is also written down what was chosen where the caller had left it open.
void EngineCore::make_scheduler(const CachePages& pages, int max_rows) {
  SchedulerOptions scheduler;
  scheduler.max_batch = options_.max_batch;
  scheduler.max_rows = max_rows;
  scheduler.page_len = executor_->page_len();
  scheduler.n_pages = pages.n;
  scheduler.has_draft = draft_ != nullptr;
  scheduler.max_kept_distributions = executor_->max_kept_distributions();
  scheduler.max_caught_up = options_.max_step_tokens;
  if (options_.prefix_cache_mib.value_or(1) > 0) {
    scheduler.max_idle_pages = pages.n_idle;
    scheduler.reads_shared_once = options_.attention == AttentionKind::kFused;
    scheduler.max_usual_text_lens = {main_->config.max_usual_text_len(),
                                     draft_ ? draft_->config.max_usual_text_len() : std::nullopt};
  }
  if (!options_.kv_memory_mib) options_.kv_memory_mib = std::max<int64_t>(1, pages.n * page_bytes() >> 20);
  if (!options_.prefix_cache_mib)
    options_.prefix_cache_mib = int64_t{scheduler.max_idle_pages.value_or(0)} * page_bytes() >> 20;
  regular_batch_.emplace(options_.max_batch);
  scheduler_ = std::make_unique<Scheduler>(scheduler, &costs_, executor_.get());
}

// Some is left for workspaces, indices of n-grams and rows of heads: on a GPU, whose workspaces are larger, a tenth.
// Weights may take more there than in their file: those of 6 bits take 8.
Result<EngineCore::ModelMemory> EngineCore::model_memory() const {
  if (!gpu_) {
    ModelMemory memory{.available_bytes = available_memory_bytes() / 16 * 15};
    for (const ModelFile* file : {main_.get(), draft_.get()}) {
      if (file == nullptr || is_shared(*file)) continue;
      // Tensors that were made at load lie in memory already, and go as they are packed.
      memory.available_bytes += file->gguf->buffer_bytes();
      memory.weight_bytes += cpu_weight_bytes(*file);
    }
    return memory;
  }
  BASS_ASSIGN_OR_RETURN(const size_t weight_bytes,
                        gpu_weight_bytes(gpu_.get(), *main_, draft_.get(), options_.activations));
  return ModelMemory{static_cast<int64_t>(gpu_->free_bytes()) / 10 * 9, static_cast<int64_t>(weight_bytes)};
}

// Memory is taken as it is touched, so what does not fit must be refused before.
Status EngineCore::check_memory(const ModelMemory& memory) const {
  const auto [available_bytes, weight_bytes] = memory;
  if (weight_bytes > available_bytes) {
    return resource_exhausted(fmt::format("the models need {} MiB of {}, {} MiB are available", weight_bytes >> 20,
                                          gpu_ ? "the GPU's memory" : "memory", available_bytes >> 20));
  }
  const int64_t kv_bytes = options_.kv_memory_mib.value_or(0) << 20;
  if (weight_bytes + kv_bytes > available_bytes) {
    return invalid_argument(fmt::format("--kv-memory {}: beside the models {} MiB are available; give at most that",
                                        kv_bytes >> 20, (available_bytes - weight_bytes) >> 20));
  }
  return ok_status();
}

// Running texts fill n_useful_pages at most; a budget that somebody has named has room besides for texts that have
// ended. Also bounds the context by what fits, if it was not given.
Result<EngineCore::CachePages> EngineCore::choose_n_pages(const ModelMemory& memory) {
  const bool has_taps = draft_ && draft_->config.main;
  const int n_taps = has_taps ? static_cast<int>(draft_->config.main->tap_layers.size()) : 0;
  const int64_t page_bytes =
      cpu_page_bytes(main_->config, options_.kv, n_taps) + (draft_ ? cpu_page_bytes(draft_->config, options_.kv) : 0);
  kv_budget_bytes_ = options_.kv_memory_mib
                         ? *options_.kv_memory_mib << 20
                         : (memory.available_bytes - memory.weight_bytes) / (gpu_ ? kGpuKvShare : kDefaultKvShare);
  const int64_t context_len = options_.context_len.value_or(main_->config.context_len);
  // Each sequence may need a copy of its prompt's last page.
  const int64_t n_useful_pages =
      ((context_len + kCpuPageLen - 1) / kCpuPageLen + 1) * (options_.max_batch + int64_t{1});
  const int64_t n_affordable = std::min(kv_budget_bytes_ / page_bytes, int64_t{std::numeric_limits<int>::max()});
  const int64_t n_wanted_idle = options_.prefix_cache_mib ? (*options_.prefix_cache_mib << 20) / page_bytes
                                : options_.kv_memory_mib  ? n_affordable / kIdleShare
                                                          : 0;
  const int64_t n_pages = std::min(n_affordable, n_useful_pages + n_wanted_idle);
  if (n_pages < 2) {
    const std::string message = fmt::format(
        "a KV cache of {} MiB is too small: {} tokens take {} KiB, and a sequence needs at least twice that; raise "
        "--kv-memory",
        kv_budget_bytes_ >> 20, kCpuPageLen, page_bytes >> 10);
    return options_.kv_memory_mib ? invalid_argument(message) : resource_exhausted(message);
  }
  if (!options_.context_len) {
    options_.context_len = static_cast<int>(std::min(context_len, (n_pages - 1) * kCpuPageLen));
    is_context_bounded_by_memory_ = *options_.context_len < context_len;
  }
  const bool is_wanted = options_.prefix_cache_mib || options_.kv_memory_mib;
  const int64_t n_idle = is_wanted ? std::min(n_wanted_idle, n_pages) : n_pages / kIdleShare;
  return CachePages{static_cast<int>(n_pages), static_cast<int>(n_idle)};
}

ModelInfo EngineCore::model_info() const {
  ModelInfo info = describe(*main_, options_.kv);
  info.step_bytes = executor_->step_weight_bytes();
  return info;
}

std::optional<ModelInfo> EngineCore::draft_info() const {
  if (!draft_) return std::nullopt;
  return describe(*draft_, options_.kv);
}

}  // namespace bass
