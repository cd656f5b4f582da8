// SPDX-License-Identifier: Apache-2.0
// What a table held at a cut, bucket by bucket, as copies that stay while the table changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fleetrec/table/cut_content.h"
#include "fleetrec/table/table.h"

namespace fleetrec {

// Copies of whole rows in some order.
class RowCopies {
 public:
  explicit RowCopies(const RowLayout& layout) : stride_(layout.stride()) {}

  // Provides memory for this many more.
  void reserve_more(std::size_t count);
  void append(Row row);
  // Orders those from the place `begin` on by id; of copies of one row, one stays.
  void sort_from(std::size_t begin);
  // Forgets the first `count`.
  void drop(std::size_t count);

  std::size_t size() const { return order_.size(); }
  Row at(std::size_t place) { return Row(&floats_[order_[place] * stride_]); }

 private:
  std::size_t stride_;
  std::vector<float> floats_;
  std::vector<float> spare_;
  std::vector<std::size_t> order_;  // by place, the number of the copy
};

// Holds the lock of the table for one stretch of rows at a time, so that training waits for less
// than a millisecond. Threads may share it, if they read different buckets. Throws
// std::runtime_error if there was no memory to keep what changed or the cut was released, and
// std::logic_error if another cut was committed, with which the tombstones went.
class CutReader {
 public:
  // `after` is the version of the parent of a delta: only rows that changed later are read. 0: all.
  // `gives_way`: other threads train, and get the lock after every stretch if they wait for it.
  CutReader(Table& table, CutContent& content, std::uint32_t after,
            const std::atomic<bool>* is_released = nullptr, bool gives_way = false)
      : table_(table),
        content_(content),
        after_(after),
        is_released_(is_released),
        gives_way_(gives_way) {}

  const RowLayout& layout() const { return table_.layout(); }

  // Ids that were evicted before the cut and had no row at the cut, in order.
  std::vector<std::uint64_t> tombstones(std::uint32_t bucket);

  // Appends the rows of a bucket, ordered by id. Once for every bucket.
  void read_rows(std::uint32_t bucket, RowCopies& copies);

  // Counters of ids without a row, ordered by id. Once for every bucket.
  std::vector<Candidate> candidates(std::uint32_t bucket);

 private:
  template <typename Prepare, typename Visit>
  void each_row(std::uint32_t bucket, bool is_last_time, const Prepare& prepare,
                const Visit& visit);
  void check_sound() const;

  Table& table_;
  CutContent& content_;
  std::uint32_t after_;
  const std::atomic<bool>* is_released_;
  bool gives_way_;
};

}  // namespace fleetrec
