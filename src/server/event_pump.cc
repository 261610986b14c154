#include "server/event_pump.h"

#include <chrono>

namespace bass {

EventPump::EventPump(Take take) : take_(std::move(take)), thread_([this] { run(); }) {}

EventPump::~EventPump() {
  is_ending_ = true;
  queue_->push(Event{});  // of no request: wakes the thread
  thread_.join();
}

void EventPump::run() {
  constexpr std::chrono::duration<double> kNow{0};
  Event event;
  while (!is_ending_ && queue_->wait(&event)) {  // what wakes it may be one of many
    std::vector<Event> events;
    do events.push_back(std::move(event));
    while (queue_->wait(&event, kNow));
    take_(std::move(events));
  }
}

}  // namespace bass
