// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/cut_reader.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

namespace fleetrec {
namespace {

// Between two stretches; with the time to wake up, a tenth of a millisecond.
constexpr std::chrono::microseconds kPause{50};

}  // namespace

void RowCopies::reserve_more(std::size_t count) {
  const std::size_t needed = floats_.size() + count * stride_;
  if (needed > floats_.capacity()) floats_.reserve(std::max(needed, 2 * floats_.capacity()));
  const std::size_t num_rows = order_.size() + count;
  if (num_rows > order_.capacity()) order_.reserve(std::max(num_rows, 2 * order_.capacity()));
}

void RowCopies::append(Row row) {
  order_.push_back(floats_.size() / stride_);
  floats_.insert(floats_.end(), row.address(), row.address() + stride_);
}

void RowCopies::sort_from(std::size_t begin) {
  const auto id_of = [this](std::size_t number) {
    return Row(&floats_[number * stride_]).header().id();
  };
  const auto first = order_.begin() + static_cast<std::ptrdiff_t>(begin);
  std::ranges::sort(first, order_.end(), {}, id_of);
  order_.erase(std::ranges::unique(first, order_.end(), {}, id_of).begin(), order_.end());
}

void RowCopies::drop(std::size_t count) {
  if (count == 0) return;
  spare_.clear();
  for (std::size_t place = count; place < order_.size(); ++place) {
    const float* row = at(place).address();
    spare_.insert(spare_.end(), row, row + stride_);
  }
  floats_.swap(spare_);
  order_.resize(order_.size() - count);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
}

// Visits the rows of a bucket that were there at the cut, some of them twice perhaps.
template <typename Prepare, typename Visit>
void CutReader::each_row(std::uint32_t bucket, bool is_last_time, const Prepare& prepare,
                         const Visit& visit) {
  std::optional<CutContent::Position> next = CutContent::Position{};
  for (bool is_first = true; next; is_first = false) {
    // A mutex is not fair: the thread that has just released it gets it again before one that has
    // to wake up. Without the pause, a step would wait for the whole bucket.
    if (gives_way_ && !is_first) std::this_thread::sleep_for(kPause);
    content_.prepare_memory();
    prepare();
    const std::lock_guard lock(table_.mutex());
    check_sound();
    next = content_.each_row(bucket, *next, [&](Row row) {
      if (row.header().version > after_) visit(row);
    });
    if (!next && is_last_time) content_.drop_rows(bucket);
  }
}

void CutReader::read_rows(std::uint32_t bucket, RowCopies& copies) {
  const std::size_t begin = copies.size();
  each_row(
      bucket, true, [&] { copies.reserve_more(content_.stretch()); },
      [&](Row row) { copies.append(row); });
  copies.sort_from(begin);
}

std::vector<std::uint64_t> CutReader::tombstones(std::uint32_t bucket) {
  std::vector<std::uint64_t> ids = [&] {
    const std::lock_guard lock(table_.mutex());
    if (content_.is_superseded()) {
      throw std::logic_error("table " + table_.options().name +
                             ": another cut was committed after this cut began");
    }
    return content_.tombstones(bucket);
  }();
  if (ids.empty()) return ids;
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  // An id that came back has its new row in this delta.
  std::vector<std::uint64_t> rows;
  each_row(
      bucket, false, [&] { rows.reserve(rows.size() + content_.stretch()); },
      [&](Row row) { rows.push_back(row.header().id()); });
  std::ranges::sort(rows);
  std::erase_if(ids, [&](std::uint64_t id) { return std::ranges::binary_search(rows, id); });
  return ids;
}

std::vector<Candidate> CutReader::candidates(std::uint32_t bucket) {
  std::vector<Candidate> found;
  CutContent::ChangedCandidates changed;
  {
    const std::lock_guard lock(table_.mutex());
    check_sound();
    content_.take_candidates(bucket, found, changed);
  }
  std::erase_if(found, [&](const Candidate& candidate) {
    return candidate.show == 0 || changed.contains(candidate.id);
  });
  for (const auto& [id, candidate] : changed) {
    if (candidate.show != 0) found.push_back(candidate);
  }
  std::ranges::sort(found, {}, &Candidate::id);
  return found;
}

void CutReader::check_sound() const {
  if (is_released_ != nullptr && *is_released_) {
    throw std::runtime_error("table " + table_.options().name +
                             ": the cut was released while it was written");
  }
  if (!content_.is_broken()) return;
  throw std::runtime_error("table " + table_.options().name +
                           ": no memory was left to keep the rows that changed while a snapshot "
                           "was written");
}

}  // namespace fleetrec
