#include "server/event_pump.h"

#include <chrono>
#include <new>

namespace bass {
namespace {

constexpr std::chrono::milliseconds kMemoryPause{20};  // when there was none

}  // namespace

EventPump::EventPump(Take take) : take_(std::move(take)), thread_([this] { run(); }) {}

EventPump::~EventPump() {
  is_ending_ = true;
  queue_->push(Event{});  // of no request: wakes the thread
  thread_.join();
}

void EventPump::run() {
  constexpr std::chrono::duration<double> kNow{0};
  Event event;
  bool has_event = false;
  std::shared_ptr<std::vector<Event>> events;  // that were not handed on yet
  while (!is_ending_) {
    if (!has_event && !events) has_event = queue_->wait(&event);  // what wakes it may be one of many
    try {
      if (!events) events = std::make_shared<std::vector<Event>>();
      for (; has_event; has_event = queue_->wait(&event, kNow)) events->push_back(std::move(event));
      take_(events);
      events.reset();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kMemoryPause);
    }
  }
}

}  // namespace bass
