// From the engine's queue of events to the server's thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bass/engine.h"

namespace bass {

/// A thread that waits for events and hands them on, those that have come together at once.
class EventPump {
 public:
  using Events = std::shared_ptr<const std::vector<Event>>;
  using Take = std::function<void(Events)>;

  /// take: called on the pump's thread; once more with the same events when it throws std::bad_alloc
  explicit EventPump(Take take);
  ~EventPump();
  EventPump(const EventPump&) = delete;
  EventPump& operator=(const EventPump&) = delete;

  /// For Engine::submit.
  [[nodiscard]] const std::shared_ptr<EventQueue>& queue() const { return queue_; }

 private:
  void run();

  Take take_;
  std::shared_ptr<EventQueue> queue_ = std::make_shared<EventQueue>();
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace bass
