// SPDX-License-Identifier: Apache-2.0
// How much memory is asked for: a length in a file must not decide that alone. And memory that
// runs out when a test wants it to.
#pragma once

#include <atomic>
#include <cstddef>

#include "check.h"

namespace fleetrec::testing {

// The largest single request since it was set to 0; allocation.cc counts.
inline std::atomic<std::size_t> largest_allocation = 0;

// How many more requests succeed; below 0 all do.
inline std::atomic<long> num_allocations_left = -1;

// From here on, nothing may ask for much more memory than there are bytes in the files.
class AllocationLimit {
 public:
  explicit AllocationLimit(std::size_t num_file_bytes)
      : limit_((std::size_t{1} << 21) + 4 * num_file_bytes) {
    largest_allocation = 0;
  }

  void check() const { CHECK(largest_allocation <= limit_); }

 private:
  std::size_t limit_;
};

}  // namespace fleetrec::testing
