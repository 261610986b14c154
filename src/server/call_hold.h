// What a call has while it lasts, given back whatever ends it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "server/api_call.h"
#include "server/running_call.h"

namespace bass {

/// What a call takes up from its first moment to its last: a place among the calls, samples, and requests to the
/// engine, which are cancelled where they still run.
class Hold {
 public:
  Hold(CallTable* calls, int64_t* n_calls, std::atomic<int64_t>* n_samples)
      : calls_(calls), n_calls_(n_calls), all_samples_(n_samples) {
    ++*n_calls_;
  }
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  /// On a reader's thread. False: too many run already.
  bool take_samples(int64_t n) {
    if (all_samples_->fetch_add(n) + n > kMaxSamples) {
      *all_samples_ -= n;
      return false;
    }
    n_samples_ = n;
    return true;
  }
  /// What the call has submitted. Whoever adds to it makes room first: a request that is not in it runs for nobody.
  std::vector<RequestId>& requests() { return requests_; }

  /// The requests' events are the call's.
  void begin(const std::shared_ptr<RunningCall>& call) {
    calls_->add(call, requests_);
    has_begun_ = true;
  }
  /// Gives all back; before a caller can know that the call is over, and asks for the next one.
  void release() {
    if (n_calls_ == nullptr) return;
    calls_->drop(requests_);
    try {
      if (!has_begun_) calls_->add(nullptr, requests_);
    } catch (const std::bad_alloc&) {  // then what they had to say is kept for nobody
    }
    *all_samples_ -= n_samples_;
    --*std::exchange(n_calls_, nullptr);
  }

 private:
  CallTable* calls_;
  int64_t* n_calls_;  // none: all is given back
  std::atomic<int64_t>* all_samples_;
  int64_t n_samples_ = 0;
  std::vector<RequestId> requests_;
  bool has_begun_ = false;
};

/// A part of something that all have together, until it is given back.
class Share {
 public:
  explicit Share(size_t* all) : all_(all) {}
  ~Share() { give_back(); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  /// False: there is not so much.
  bool take(size_t n, size_t max) {
    if (*all_ + n > max) return false;
    *all_ += n;
    n_ += n;
    return true;
  }
  void give_back() { *all_ -= std::exchange(n_, 0); }
  [[nodiscard]] size_t n() const { return n_; }

 private:
  size_t* all_;
  size_t n_ = 0;
};

/// One more, as long as it lives.
class Counted {
 public:
  explicit Counted(int* n) : n_(n) { ++*n_; }
  ~Counted() { --*n_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int* n_;
};

}  // namespace bass
