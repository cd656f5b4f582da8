// SPDX-License-Identifier: Apache-2.0
// Pauses of a thread that works beside training.
#pragma once

#include <chrono>
#include <thread>

namespace fleetrec {

// Keeps the stretches short in which a thread holds a core. A low priority alone does not: the
// scheduler lets the thread run until its next tick, some milliseconds, and a parallel loop of a
// step waits as long for the member of its team that was on this core.
class Pacer {
 public:
  explicit Pacer(bool is_on) : is_on_(is_on), begin_(Clock::now()) {}

  // Sleeps, if the thread has worked for a while.
  void pause_if_due() {
    if (!is_on_ || Clock::now() - begin_ < kWork) return;
    std::this_thread::sleep_for(kPause);
    begin_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kWork{200};
  static constexpr std::chrono::microseconds kPause{100};

  bool is_on_;
  Clock::time_point begin_;
};

}  // namespace fleetrec
