// Texts that begin alike: what one request has brought into the cache, others go on from. Pages hold the same bits
// whoever has computed them, so texts do not depend on it.
#include <algorithm>

#include "base/check.h"
#include "engine/scheduler.h"

namespace bass {
namespace {

// Prompts that are read at the same time and may be waited for; of more, some pages are computed twice.
constexpr size_t kMaxClaims = 64;

std::span<const TokenId> page_of(std::span<const TokenId> tokens, int page_idx, int page_len) {
  return tokens.subspan(static_cast<size_t>(page_idx) * static_cast<size_t>(page_len), static_cast<size_t>(page_len));
}

}  // namespace

// Log-probabilities of a prompt are computed with all of its rows.
bool Scheduler::shares_prefix(const RequestState& request) const {
  return may_share(request) && !request.request.prompt_logprobs;
}

// Where attention could not read both what samples share and what requests share once, the samples are worth more.
bool Scheduler::may_share(const RequestState& request) const {
  return prefixes_ && (request.choices.size() == 1 || executor_->divides_shared_texts());
}

// Of texts whose keys turn alike in both models.
PrefixCache::NodeId Scheduler::prefix_root(const RequestState& request) const {
  PrefixCache::NodeId root = PrefixCache::kRoot;
  for (size_t i = 0; i < options_.max_usual_text_lens.size(); ++i) {
    const std::optional<int> max_len = options_.max_usual_text_lens[i];
    if (max_len && request.max_text_len > *max_len) root -= 1 << i;
  }
  return root;
}

// Goes on behind the pages that other texts have brought into the cache. A prompt that the draft model reads beside the
// main model needs its pages too; another one takes them where they are, and has that much less to catch up with.
void Scheduler::take_known_prefix(RequestState* request) {
  if (!shares_prefix(*request) || request->is_prefilled()) return;
  const int page_len = options_.page_len;
  while (request->main_prefix.len() % page_len == 0 && request->n_prefill_left() >= page_len) {
    const int len = request->main_prefix.len();
    const PrefixCache::NodeId node =
        prefixes_->find(request->prefix_node, page_of(request->prompt, len / page_len, page_len));
    if (node == PrefixCache::kNone) return;
    const PageId draft_page = prefixes_->draft_page(node);
    if (request->draft_reads_prompt && draft_page == PrefixCache::kNoPage) return;
    request->main_prefix.append_shared(prefixes_->main_page(node));
    const bool takes_draft = request->uses_draft_model && draft_page != PrefixCache::kNoPage;
    if (takes_draft && request->draft_prefix.len() == len) request->draft_prefix.append_shared(draft_page);
    prefixes_->move_hold(request->prefix_node, node);
    request->prefix_node = node;
    request->n_cached_tokens += page_len;
  }
}

// Whether a request that has rows of the step before this one is about to compute the prompt's next page. The first one
// that is asked never waits.
bool Scheduler::waits_for_prefix(const RequestState& request) {
  if (!shares_prefix(request)) return false;
  const int page_idx = request.main_prefix.len() / options_.page_len;
  if ((page_idx + 1) * options_.page_len > request.prefix_len) return false;
  const auto tokens = page_of(request.prompt, page_idx, options_.page_len);
  const bool is_at_page = request.main_prefix.len() % options_.page_len == 0;
  const auto is_claimed = [&](const PrefixClaim& claim) {
    return claim.parent == request.prefix_node && (claim.has_draft || !request.draft_reads_prompt) &&
           std::ranges::equal(claim.tokens, tokens);
  };
  if (is_at_page && std::ranges::any_of(claims_, is_claimed)) return true;
  if (claims_.size() < kMaxClaims) claims_.push_back({request.prefix_node, tokens, request.draft_reads_prompt});
  return false;
}

void Scheduler::share_prefix(RequestState* request) {
  if (!shares_prefix(*request)) return;
  const int page_len = options_.page_len;
  const int n_draft_pages = request->draft_prefix.len() / page_len;
  // All pages that were full before this chunk have nodes.
  for (int page_idx = prefixes_->depth(request->prefix_node); (page_idx + 1) * page_len <= request->main_prefix.len();
       ++page_idx) {
    const auto tokens = page_of(request->prompt, page_idx, page_len);
    const auto at = static_cast<size_t>(page_idx);
    const PageId main_page = request->main_prefix.pages()[at];
    const PageId draft_page = page_idx < n_draft_pages ? request->draft_prefix.pages()[at] : PrefixCache::kNoPage;
    PrefixCache::NodeId node = prefixes_->find(request->prefix_node, tokens);
    if (node == PrefixCache::kNone) {
      node = prefixes_->add(request->prefix_node, tokens, main_page, draft_page);
    } else {  // another request was as fast: one copy is enough
      request->main_prefix.replace(page_idx, prefixes_->main_page(node));
      if (draft_page != PrefixCache::kNoPage) share_draft_page(node, &request->draft_prefix, page_idx);
    }
    prefixes_->move_hold(request->prefix_node, node);
    request->prefix_node = node;
  }
}

void Scheduler::share_draft_page(PrefixCache::NodeId node, PageTable* table, int page_idx) {
  if (prefixes_->draft_page(node) == PrefixCache::kNoPage) {
    prefixes_->set_draft_page(node, table->pages()[static_cast<size_t>(page_idx)]);
  } else {
    table->replace(page_idx, prefixes_->draft_page(node));
  }
}

// Tokens that the prompt has in common with those that were counted in this step before.
int Scheduler::n_read_for_others(const RequestState& request) {
  if (!prefixes_ || !options_.reads_shared_once) return 0;
  const int n_new = prefixes_->mark(request.prefix_node, n_marks_);
  return (prefixes_->depth(request.prefix_node) - n_new) * options_.page_len;
}

// A conversation's next turn begins with the text of this one. Nothing is said of the last token, which no step has fed
// to the model, nor of drafts that were accepted behind the text's end.
void Scheduler::keep_text(const Sequence& sequence) {
  const RequestState& request = *sequence.request;
  if (!may_share(request) || *options_.max_idle_pages == 0) return;
  const int page_len = options_.page_len;
  const int n_pages = std::min(sequence.main_pages.len(), request.text_len(sequence)) / page_len;
  const int n_draft_pages = std::min(sequence.draft_pages.len() / page_len, n_pages);
  const auto draft_page = [&](int page_idx) {
    return page_idx < n_draft_pages ? sequence.draft_pages.pages()[static_cast<size_t>(page_idx)]
                                    : PrefixCache::kNoPage;
  };
  const auto add_draft_page = [&](PrefixCache::NodeId node) {
    const PageId page = draft_page(prefixes_->depth(node) - 1);
    if (page != PrefixCache::kNoPage && prefixes_->draft_page(node) == PrefixCache::kNoPage) {
      prefixes_->set_draft_page(node, page);
    }
  };
  PrefixCache::NodeId node = request.prefix_node;
  for (auto at = node; !PrefixCache::is_root(at); at = prefixes_->parent(at)) add_draft_page(at);
  prefixes_->hold(node);
  for (int page_idx = prefixes_->depth(node); page_idx < n_pages; ++page_idx) {
    for (int i = 0; i < page_len; ++i) {
      page_tokens_[static_cast<size_t>(i)] = request.token_at(sequence, page_idx * page_len + i);
    }
    PrefixCache::NodeId next = prefixes_->find(node, page_tokens_);
    if (next == PrefixCache::kNone) {
      const PageId main_page = sequence.main_pages.pages()[static_cast<size_t>(page_idx)];
      next = prefixes_->add(node, page_tokens_, main_page, draft_page(page_idx));
    } else {
      add_draft_page(next);
    }
    prefixes_->move_hold(node, next);
    node = next;
  }
  prefixes_->release(node);
}

}  // namespace bass
