// SPDX-License-Identifier: Apache-2.0
// Memory that is taken in large pieces and given back all at once.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace fleetrec {

// Hands out zeroed memory from blocks of huge pages: rows are read at random, and with small pages
// every read would miss the address cache as well.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Safe to call from several threads; never moves what was handed out before.
  float* allocate(std::size_t num_floats);

  // Touches the next `num_bytes` to be allocated, as far as that has not happened, so that their
  // user waits for no page fault. Another thread may allocate meanwhile.
  void prefault(std::size_t num_bytes);

  // Gives everything back; what was handed out is gone.
  void clear();

  // Gives back what is here, and takes what another one has, which is empty then.
  void take_over(Arena& other);

  // All that was taken from the system, whether or not it was touched.
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  struct Block {
    std::byte* first;
    std::size_t num_bytes;
    std::size_t begin;    // where the first huge page begins
    std::size_t touched;  // up to here by `prefault`
  };

  void add_block(std::size_t min_bytes);
  Block map_block(std::size_t min_bytes);
  std::span<std::byte> next_untouched(std::size_t num_bytes);

  std::mutex mutex_;
  std::vector<Block> blocks_;
  std::optional<Block> spare_;  // the block after the last, if it is touched already
  std::size_t used_ = 0;        // of the last block
  std::size_t num_bytes_ = 0;
};

}  // namespace fleetrec
