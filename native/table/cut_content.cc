// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/cut_content.h"

#include <cstring>
#include <new>
#include <utility>

namespace fleetrec {
namespace {

// How much a writer reads while training waits for it: a tenth of a millisecond, roughly.
constexpr std::size_t kStretchBytes = std::size_t{1} << 18;

// Copies that the first step behind a cut can make without a page fault: nearly all its rows have
// not changed since.
constexpr std::size_t kFirstBytes = std::size_t{1} << 24;

}  // namespace

CutContent::CutContent(std::span<const Bucket> buckets, const RowLayout& layout,
                       std::uint32_t version)
    : buckets_(buckets),
      stride_(layout.stride()),
      version_(version),
      stretch_(static_cast<std::uint32_t>(
          std::max<std::size_t>(kStretchBytes / (stride_ * sizeof(float)), 1))),
      kept_(buckets.size()) {
  std::size_t num_bytes = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    kept_[b].num_tombstones = buckets[b].tombstones.size();
    num_bytes += buckets[b].num_rows * stride_ * sizeof(float);
  }
  if (num_bytes >= kFirstBytes) arena_.prefault(kFirstBytes);
}

void CutContent::keep_row(std::uint32_t bucket, Row row) {
  Kept& kept = kept_[bucket];
  if (kept.rows_are_dropped || is_broken_ || !is_unchanged(row)) return;
  try {
    float* copy = kept.rows.provide(kept.num_rows, stride_, arena_).address();
    std::memcpy(copy, row.address(), stride_ * sizeof(float));
    ++kept.num_rows;
  } catch (const std::bad_alloc&) {
    is_broken_ = true;
  }
}

void CutContent::keep_candidate(std::uint32_t bucket, const Candidate& before) {
  Kept& kept = kept_[bucket];
  if (kept.candidates_are_dropped || is_broken_) return;
  try {
    kept.candidates.try_emplace(before.id, before);  // the first one is that of the cut
  } catch (const std::bad_alloc&) {
    is_broken_ = true;
  }
}

void CutContent::keep_all(std::vector<Bucket> buckets, Arena& arena) {
  old_buckets_ = std::move(buckets);
  old_arena_.take_over(arena);
  buckets_ = old_buckets_;
}

std::vector<std::uint64_t> CutContent::tombstones(std::uint32_t bucket) const {
  const std::vector<std::uint64_t>& now = buckets_[bucket].tombstones;
  const std::size_t count = std::min(kept_[bucket].num_tombstones, now.size());
  return {now.begin(), now.begin() + static_cast<std::ptrdiff_t>(count)};
}

void CutContent::take_candidates(std::uint32_t bucket, std::vector<Candidate>& now,
                                 ChangedCandidates& changed) {
  Kept& kept = kept_[bucket];
  now = buckets_[bucket].candidates.entries();
  changed = std::exchange(kept.candidates, {});
  kept.candidates_are_dropped = true;
}

}  // namespace fleetrec
