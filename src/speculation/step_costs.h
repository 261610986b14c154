// What a step costs by the number of its rows and by their contexts, measured while working.
//
// POD, like the policies' state, so that the per-step decision can run on a device. One table serves all policies of an
// engine: the machine and the models are the same for all.
#pragma once

#include <bit>
#include <cstdint>

#include "speculation/attention_costs.h"
#include "speculation/recent_times.h"

namespace bass {

/// What the step that has just run cost.
struct StepCost {
  int32_t n_rows = 0;          // of the main model
  double step_s = 0;           // without the draft model's passes
  bool is_clean = false;       // no prompt's chunk ran beside, and nothing was done that is done once
  int32_t n_draft_steps = 0;   // passes of the draft model
  int32_t n_model_drafts = 0;  // tokens that they drafted or dropped, all sequences together
  double draft_s = 0;          // of these passes
  double attention_s = 0;      // of step_s, the main model's attention; 0: not measured apart
  double n_read = 0;           // the main model's StepLoad
  double n_seen = 0;
  int32_t n_caught_up = 0;  // tokens that the draft model's first pass read for sequences that had to catch up
  int32_t n_behind = 0;     // and for those that were a little behind (n_behind in draft_length.h)

  [[nodiscard]] StepLoad load() const { return {n_rows, n_read, n_seen}; }
};

struct StepCosts {
  static constexpr int kMaxRows = 512;       // rows of a step whose cost is kept; more tell what so many take
  static constexpr int kGoodTimes = 4;       // of a size: the typical one of so many is one that nobody disturbed
  static constexpr int kStaleSteps = 64;     // in which nothing of the kind was measured: what is known of it is old
  static constexpr int kMaxSteps = 1 << 30;  // that are counted
  static constexpr int kDraftSizes = 10;     // entry i: passes of the draft model that draft 2^i to 2^(i+1) - 1 tokens
  float step_s[kMaxRows + 1] =
      {};  // seconds of a step by its rows, drafting and attention not counted; 0: not measured
  uint16_t n_measured[kMaxRows + 1] = {};  // times, at most 65535
  RecentTimes recent[kMaxRows + 1];        // of which step_s is the typical one
  uint8_t n_in_row[kMaxRows + 1] = {};     // measurements that followed one another soon
  float draft_step_s[kDraftSizes] = {};    // seconds of one pass of the draft model; 0: not measured
  RecentTimes recent_drafts[kDraftSizes];  // of this run; none: draft_step_s is an earlier one's
  AttentionCosts attention;
  int32_t max_rows_seen = 0;
  int32_t n_steps = 0;                       // that were learnt from
  int32_t last_measured[kMaxRows + 1] = {};  // by the how many-th of them; 0: the entry is an earlier run's
  float kept_s[kMaxRows + 1] = {};        // what an earlier run had kept of sizes that were measured since; 0: nothing
  float kept_level = 1;                   // this run's steps take this many times what was kept
  float log_level = 0;                    // sum of all moves of the whole table, as logarithms
  float log_level_at[kMaxRows + 1] = {};  // when the entry was measured last
  float scatter = 0.2f;                   // how far times lie from what was believed (logarithm), on average
  float slowed = 1;                       // steps take so many times what is believed on average: others' work
  float catch_up_s = 0;                   // seconds a token of text that the draft model had not followed
  RecentTimes recent_catch_ups;           // of this run; none: catch_up_s is an earlier one's
  float chunk_row_s = 0;                  // what a row added to the last step that read prompts; 0: there was none

  /// The entry of passes that draft so many tokens on average.
  static constexpr int draft_size(int n_draft_steps, int n_model_drafts) {
    const auto mean = static_cast<uint32_t>(n_model_drafts > n_draft_steps ? n_model_drafts / n_draft_steps : 1);
    const int size = static_cast<int>(std::bit_width(mean)) - 1;
    return size < kDraftSizes ? size : kDraftSizes - 1;
  }
  /// The entry of steps of so many rows.
  static constexpr int row_idx(int n_rows) { return n_rows < 1 ? 1 : n_rows > kMaxRows ? kMaxRows : n_rows; }
};

/// Learns what a row adds to a step that reads n_chunk_rows tokens of prompts: its time without what its sequences take
/// without drafts (`regular`), by the other rows. cost: of the step, n_rows without prompts
void learn_chunk_cost(const StepCost& cost, int n_chunk_rows, const StepLoad& regular, StepCosts* costs);

/// Learns from a clean step. A size is believed to take what its typical latest step took (recent_times.h). Where that
/// moves, most of it is the machine's doing and moves the whole table. One time that is far below all that is known of
/// a size that was not measured lately, or only moved with the table, is believed at once. An entry of an earlier run
/// counts less with each measurement, and those that are not measured yet follow the median of those that are: the
/// machine may be another one today.
void learn_step_cost(const StepCost& cost, StepCosts* costs);

}  // namespace bass
