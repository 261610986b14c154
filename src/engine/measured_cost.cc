#include "engine/measured_cost.h"

#include <algorithm>
#include <span>

namespace bass {

bool was_run(const StepPlan& plan, const StepResult& result) {
  const auto segments = std::span(result.segments).first(plan.segments.size());
  return std::none_of(segments.begin(), segments.end(),
                      [](const SegmentResult& segment) { return segment.failed && !segment.error.ok(); });
}

StepCost measured_cost(const StepPlan& plan, const StepResult& result, const StepLoad& regular, double device_s,
                       bool has_chunk) {
  const DraftTimes& drafts = result.draft_times;
  const double draft_s = drafts.first_s + drafts.later_s;
  StepCost cost{.n_rows = regular.n_rows,
                .step_s = device_s - draft_s,
                .is_clean = !has_chunk && result.graphs.recorded == 0 && was_run(plan, result),
                .n_draft_steps = static_cast<int32_t>(drafts.n_first + drafts.n_later),
                .draft_s = draft_s,
                .attention_s = result.attention_s,
                .n_read = regular.n_read,
                .n_seen = regular.n_seen};
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const SegmentPlan& segment = plan.segments[i];
    const SegmentResult& found = result.segments[i];
    const auto n_read_by_draft = static_cast<int>(segment.draft_tokens.size());
    cost.n_caught_up += n_to_catch_up(n_read_by_draft);
    cost.n_behind += n_behind(n_read_by_draft);
    cost.n_rows += found.n_drafted;
    cost.n_seen += static_cast<double>(found.n_drafted) * (segment.start + 1);
    // Of a device that tells no confidences, none was dropped.
    const int n_model_drafted = segment.n_model_drafts > 0 ? found.n_drafted : 0;
    cost.n_model_drafts += std::max(n_model_drafted, static_cast<int>(found.confidences.size()));
  }
  return cost;
}

}  // namespace bass
