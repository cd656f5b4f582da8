// SPDX-License-Identifier: Apache-2.0
// The one way this library uses several threads.
#pragma once

#include <cstddef>
#include <exception>

namespace fleetrec {

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

}  // namespace fleetrec
