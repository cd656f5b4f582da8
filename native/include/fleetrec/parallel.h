// SPDX-License-Identifier: Apache-2.0
// The one way this library uses several threads.
#pragma once

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

// Calls `work(i)` for every i below `num_tasks`, in order, on this thread and some that are made
// for the call. For work beside training: OpenMP's threads would be a second team, whose members
// wait for each other actively and keep those of torch from the cores.
template <typename Work>
void parallel_for_beside(std::size_t num_threads, std::size_t num_tasks, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take_tasks = [&] {
    for (std::size_t i = next++; i < num_tasks; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> others;
  while (others.size() + 1 < std::min(num_threads, num_tasks)) others.emplace_back(take_tasks);
  take_tasks();
  others.clear();
  if (failure != nullptr) std::rethrow_exception(failure);
}

#ifdef FLEETREC_STD_THREADS

inline std::atomic<std::size_t> num_std_threads{2};

// The same contract as below, for ThreadSanitizer: it cannot see how OpenMP's threads wait for each
// other and would report every loop. Threads are made anew in every call, which is slow.
template <typename Work>
void parallel_for(std::size_t num_tasks, const Work& work) {
  parallel_for_beside(num_std_threads, num_tasks, work);
}

inline std::size_t max_threads() { return num_std_threads; }

#else

// How many threads the loop below has at most.
inline std::size_t max_threads() {
#ifdef _OPENMP
  return static_cast<std::size_t>(omp_get_max_threads());
#else
  return 1;
#endif
}

// Calls `work(i)` for every i below `num_tasks`, on the threads of OpenMP: they are the ones that
// torch computes with, so that the two never compete for cores. Which thread takes which task is
// left open; `work` must give the same result whoever does it. The first exception is thrown again.
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
