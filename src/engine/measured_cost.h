// From a step's plan and results to what the table of costs learns of it.
#pragma once

#include "executor/step_plan.h"
#include "speculation/draft_length.h"

namespace bass {

/// `regular`: of the step's sequences without drafts. device_s: seconds from planning to the results. has_chunk: prompt
/// tokens were read that no sequence decodes from. Not clean, so that nothing is learnt of it, is a step with such,
/// one that was not run, and one that recorded graphs: the next one of its size takes less.
StepCost measured_cost(const StepPlan& plan, const StepResult& result, const StepLoad& regular, double device_s,
                       bool has_chunk);

/// False for a step that the device could not do, or not whole: its time says nothing of what steps take.
bool was_run(const StepPlan& plan, const StepResult& result);

}  // namespace bass
