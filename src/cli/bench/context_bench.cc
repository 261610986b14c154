#include "cli/bench/context_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "base/check.h"

namespace bass {
namespace {

// With room for the token that the step feeds.
int pages_for(int context_len) { return context_len / kCpuPageLen + 1; }

}  // namespace

int64_t ContextBench::n_pages(const ContextCase& context_case) {
  const int64_t n_own = context_case.is_shared ? 1 : pages_for(context_case.context_len);
  return pages_for(context_case.context_len) + (context_case.batch - 1) * n_own;
}

Result<std::unique_ptr<ContextBench>> ContextBench::create(const ModelFile& file, const ExecutorOptions& options,
                                                           int max_context_len) {
  std::unique_ptr<ContextBench> bench(new ContextBench());
  BASS_ASSIGN_OR_RETURN(bench->executor_, make_cpu_executor(file, nullptr, options));
  bench->max_step_tokens_ = options.max_step_tokens;
  const auto vocab_size = static_cast<uint32_t>(file.vocab.tokens.size());
  for (int i = 0; i < max_context_len; ++i) {
    constexpr uint32_t kStride = 7919;  // a text of many different tokens
    bench->prompt_.push_back(static_cast<TokenId>((static_cast<uint32_t>(i) * kStride + 17) % vocab_size));
  }
  bench->prompt_pages_.resize(static_cast<size_t>(pages_for(max_context_len)));
  std::iota(bench->prompt_pages_.begin(), bench->prompt_pages_.end(), 0);
  bench->prefill();
  return bench;
}

void ContextBench::prefill() {
  const auto n = static_cast<int>(prompt_.size());
  for (int start = 0; start < n; start += max_step_tokens_) {
    plan_.clear();
    SegmentPlan& segment = plan_.segments.emplace_back();
    segment.start = start;
    segment.tokens = std::span<const TokenId>(prompt_).subspan(static_cast<size_t>(start));
    segment.tokens = segment.tokens.first(std::min(segment.tokens.size(), static_cast<size_t>(max_step_tokens_)));
    segment.pages = prompt_pages_;
    executor_->wait(executor_->submit(plan_));
  }
}

// The plan of the case, with the copies that it needs.
void ContextBench::copy_context(const ContextCase& context_case) {
  plan_.clear();
  pages_.assign(static_cast<size_t>(context_case.batch), prompt_pages_);
  const auto n = static_cast<size_t>(pages_for(context_case.context_len));
  const size_t first_own = context_case.is_shared ? n - 1 : 0;  // the page that is written is everyone's own
  auto next_page = static_cast<PageId>(prompt_pages_.size());
  for (size_t i = 0; i < pages_.size(); ++i) {
    pages_[i].resize(n);
    for (size_t page = first_own; page < n && i > 0; ++page) {
      plan_.main_copies.push_back({pages_[i][page], next_page, kCpuPageLen});
      pages_[i][page] = next_page++;
    }
    SegmentPlan& segment = plan_.segments.emplace_back();
    segment.start = context_case.context_len;
    segment.tokens = std::span<const TokenId>(prompt_).first(1);
    segment.pages = pages_[i];
    segment.wants_sample = true;
    segment.sampling.temperature = 0;
  }
}

double ContextBench::step_seconds() {
  const auto begin = std::chrono::steady_clock::now();
  work_ = executor_->wait(executor_->submit(plan_)).work;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

ContextTiming ContextBench::run(const ContextCase& context_case) {
  copy_context(context_case);
  step_seconds();
  plan_.main_copies.clear();
  std::array<double, kSteps> seconds{};
  for (double& s : seconds) s = step_seconds();
  std::nth_element(seconds.begin(), seconds.begin() + kSteps / 2, seconds.end());
  return {seconds[kSteps / 2], work_};
}

}  // namespace bass
