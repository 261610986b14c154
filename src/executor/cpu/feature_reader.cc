#include "executor/cpu/feature_reader.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace bass::cpu {

FeatureReader::FeatureReader(const ModelFile& file, const FeatureOptions& options)
    : options_(options), n_tokens_(static_cast<int>(file.vocab.tokens.size())), team_(options.n_threads) {
  options_.n_top = std::min(options_.n_top, n_tokens_);
}

Result<std::unique_ptr<FeatureReader>> FeatureReader::create(const ModelFile& file, const FeatureOptions& options,
                                                             int max_text_len) {
  std::unique_ptr<FeatureReader> reader(new FeatureReader(file, options));
  reader->max_text_len_ = max_text_len;
  BASS_ASSIGN_OR_RETURN(const Kernels* kernels, select_kernels());
  KvOptions kv;
  kv.n_pages = (max_text_len + kKvPageLen - 1) / kKvPageLen;
  kv.context_len = max_text_len;
  kv.n_taps = static_cast<int>(options.layers.size());
  BASS_ASSIGN_OR_RETURN(reader->model_, CpuModel::load(file, kv, &reader->team_));
  reader->pages_.resize(static_cast<size_t>(kv.n_pages));
  std::iota(reader->pages_.begin(), reader->pages_.end(), 0);
  ForwardOptions forward{.max_rows = kMaxRows, .n_threads = options.n_threads};
  forward.tap_layers = options.layers;
  reader->forward_ = std::make_unique<CpuForward>(reader->model_.get(), kernels, forward);
  const int vocab_size = file.config.vocab_size;
  reader->logits_ = AlignedBuffer(size_t{kLogitsBlockRows} * static_cast<size_t>(vocab_size) * sizeof(float));
  if (!reader->logits_.ok() || !reader->forward_->ok()) return resource_exhausted("no memory for the workspace");
  for (int i = 0; i < options.n_threads; ++i) {
    reader->samplers_.push_back(std::make_unique<RowSampler>(kernels, vocab_size));
  }
  reader->best_.resize(static_cast<size_t>(options.n_threads));
  for (auto& best : reader->best_) best.reserve(static_cast<size_t>(reader->options_.n_top));
  return reader;
}

const TextFeatures& FeatureReader::read(std::span<const TokenId> tokens, int first_top) {
  const size_t n = tokens.size();
  BASS_CHECK(n >= 1 && n <= static_cast<size_t>(max_text_len_));
  BASS_CHECK(first_top >= 0 && static_cast<size_t>(first_top) <= n);
  first_top_ = first_top;
  features_.taps.resize(n * options_.layers.size() * static_cast<size_t>(model_->config().d_model));
  features_.top_ids.resize((n - static_cast<size_t>(first_top)) * static_cast<size_t>(options_.n_top));
  features_.top_logprobs.resize(features_.top_ids.size());
  text_len_ = static_cast<int>(n);
  model_->prepare_positions(text_len_);
  for (size_t start = 0; start < n; start += kMaxRows) {
    read_chunk(tokens.subspan(start, std::min(n - start, size_t{kMaxRows})), static_cast<int>(start));
  }
  return features_;
}

void FeatureReader::read_chunk(std::span<const TokenId> tokens, int start) {
  const auto n = static_cast<int>(tokens.size());
  forward_->begin_batch();
  forward_->reserve(1, pages_.size());
  forward_->add_segment(start, /*is_decode=*/false, pages_, text_len_);
  for (const TokenId token : tokens) forward_->add_token(token);
  const int first_row = std::clamp(first_top_ - start, 0, n);
  forward_->want_results(options_.n_top == 0 ? 0 : n - first_row);
  forward_->end_batch();
  std::vector<int> rows(static_cast<size_t>(n - first_row));
  std::iota(rows.begin(), rows.end(), first_row);
  const auto vocab_size = static_cast<size_t>(model_->config().vocab_size);
  team_.run([&](const TeamContext& context) noexcept {
    forward_->run(context);
    const WorkRange mine = context.share(n);
    for (int i = mine.begin; i < mine.end; ++i) copy_taps(start + i);
    if (options_.n_top == 0) return;
    for (int begin = first_row; begin < n; begin += kLogitsBlockRows) {
      const int n_rows = std::min(kLogitsBlockRows, n - begin);
      const auto first = static_cast<size_t>(begin - first_row);
      forward_->logits(context, std::span(rows).subspan(first, static_cast<size_t>(n_rows)), logits_.as<float>());
      const WorkRange share = context.share(n_rows);
      for (int i = share.begin; i < share.end; ++i) {
        const float* row = logits_.as<float>() + static_cast<size_t>(i) * vocab_size;
        const auto mine_idx = static_cast<size_t>(context.thread_idx());
        find_top(*samplers_[mine_idx], best_[mine_idx], row, start + begin + i - first_top_);
      }
      context.barrier();
    }
  });
}

void FeatureReader::copy_taps(int position) {
  const size_t n_values = options_.layers.size() * static_cast<size_t>(model_->config().d_model);
  const PageId page = pages_[static_cast<size_t>(position / kKvPageLen)];
  const uint16_t* taps = model_->taps(page, position % kKvPageLen);
  std::copy(taps, taps + n_values, features_.taps.data() + static_cast<size_t>(position) * n_values);
}

void FeatureReader::find_top(RowSampler& sampler, std::vector<RowSampler::Candidate>& best, const float* logits,
                             int at) {
  SamplingParams params;
  params.temperature = 1.0f;
  params.top_k = options_.n_top;
  const RowDistribution row = sampler.build(logits, n_tokens_, params, {}, Normalise::kNo);
  best.clear();
  for (const RowSampler::Candidate& candidate : sampler.entries_above(row, row.kept.cut_value)) {
    if (row.kept.contains(candidate.z, candidate.id)) best.push_back(candidate);
  }
  std::sort(best.begin(), best.end(),
            [](const auto& a, const auto& b) { return a.z != b.z ? a.z > b.z : a.id < b.id; });
  const size_t begin = static_cast<size_t>(at) * static_cast<size_t>(options_.n_top);
  for (size_t i = 0; i < static_cast<size_t>(options_.n_top); ++i) {
    const bool is_there = i < best.size();  // a model may rule tokens out
    features_.top_ids[begin + i] = is_there ? best[i].id : 0;
    features_.top_logprobs[begin + i] = is_there ? raw_logprob(logits, row, best[i].id) : -INFINITY;
  }
}

}  // namespace bass::cpu
