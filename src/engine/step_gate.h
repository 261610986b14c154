// Who may run a step now, where engines of one process take turns.
#pragma once

namespace bass {

/// An engine asks before each of its steps. The gate must outlive the engine.
class StepGate {
 public:
  virtual ~StepGate() = default;
  /// Whether the step may begin without waiting. The engine's events of the last step may be late then, as they are
  /// without a gate; in front of `enter` they are published.
  [[nodiscard]] virtual bool is_open() { return false; }
  /// On the engine's thread; returns when the step may begin. The wait is no part of the step's time. Cancellations and
  /// the engine's destruction wait for it, too.
  virtual void enter() = 0;
};

}  // namespace bass
