// SPDX-License-Identifier: Apache-2.0
// Parallel loops; all threads of this library are started here.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#if !defined(FLEETREC_STD_THREADS) && defined(_OPENMP)
#include <omp.h>
#endif

namespace fleetrec {

// Tasks that some threads take one after the other; the first exception is thrown by `finish`.
template <typename Work>
class SharedTasks {
 public:
  SharedTasks(std::size_t num_tasks, const Work& work) : num_tasks_(num_tasks), work_(work) {}

  void take() {
    for (std::size_t i = next_++; i < num_tasks_; i = next_++) {
      try {
        work_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (failure_ == nullptr) failure_ = std::current_exception();
      }
    }
  }

  void finish() {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  const std::size_t num_tasks_;
  const Work& work_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

// Calls `work(i)` for every i below `num_tasks` in the background of training: on threads created
// for the call, at low priority. OpenMP would create a second team, whose threads spin while they
// wait and take cores from the threads of torch.
template <typename Work>
void parallel_for_background(std::size_t num_threads, std::size_t num_tasks, const Work& work) {
  constexpr int kNiceness = 10;  // a tenth of a core, if nothing is idle
  SharedTasks tasks(num_tasks, work);
  {
    std::vector<std::jthread> threads;
    while (threads.size() < std::min(num_threads, num_tasks)) {
      threads.emplace_back([&] {
        const auto self = static_cast<id_t>(gettid());
        setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kNiceness);
        tasks.take();
      });
    }
  }
  tasks.finish();
}

#ifdef FLEETREC_STD_THREADS

inline std::atomic<std::size_t> num_std_threads{2};

// The same contract as below, for ThreadSanitizer: it cannot see how OpenMP's threads wait for each
// other and would report every loop. Every call creates its threads, which is slow.
template <typename Work>
void parallel_for(std::size_t num_tasks, const Work& work) {
  SharedTasks tasks(num_tasks, work);
  {
    std::vector<std::jthread> others;
    const std::size_t num_threads = std::min<std::size_t>(num_std_threads, num_tasks);
    while (others.size() + 1 < num_threads) others.emplace_back([&] { tasks.take(); });
    tasks.take();
  }
  tasks.finish();
}

inline std::size_t max_threads() { return num_std_threads; }

#else

// Maximum number of threads of the loop below.
inline std::size_t max_threads() {
#ifdef _OPENMP
  return static_cast<std::size_t>(omp_get_max_threads());
#else
  return 1;
#endif
}

// Calls `work(i)` for every i below `num_tasks`, on the threads of OpenMP: they are the ones that
// torch computes with, so that the two never compete for cores. Which thread takes which task is
// unspecified; `work` must give the same result on any thread. The first exception is thrown again.
template <typename Work>
void parallel_for(std::size_t num_tasks, const Work& work) {
  std::exception_ptr failure;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) if (num_tasks > 1)
#endif
  for (std::size_t i = 0; i < num_tasks; ++i) {
    try {
      work(i);
    } catch (...) {
#ifdef _OPENMP
#pragma omp critical(fleetrec_parallel_failure)
#endif
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

#endif

}  // namespace fleetrec
