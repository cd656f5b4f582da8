// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/cut_content.h"

#include <cstring>
#include <new>
#include <utility>

namespace fleetrec {
namespace {

// How much a writer reads while training waits for it: some hundredths of a millisecond.
constexpr std::size_t kStretchBytes = std::size_t{1} << 17;

}  // namespace

CutContent::CutContent(std::span<const Bucket> buckets, const RowLayout& layout,
                       std::uint32_t version, std::shared_ptr<CutContent> older)
    : buckets_(buckets),
      stride_(layout.stride()),
      version_(version),
      stretch_(static_cast<std::uint32_t>(
          std::max<std::size_t>(kStretchBytes / (stride_ * sizeof(float)), 1))),
      kept_(buckets.size()),
      older_(std::move(older)) {
  std::size_t num_bytes = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    kept_[b].num_tombstones = buckets[b].tombstones.size();
    num_bytes += buckets[b].num_rows * stride_ * sizeof(float);
  }
  is_large_ = num_bytes >= kPreparedBytes;
}

std::shared_ptr<CutContent> CutContent::without(const std::shared_ptr<CutContent>& newest,
                                                const CutContent& removed) {
  if (newest.get() == &removed) return removed.older_;
  for (CutContent* one = newest.get(); one != nullptr; one = one->older_.get()) {
    if (one->older_.get() == &removed) one->older_ = removed.older_;
  }
  return newest;
}

void CutContent::keep_row(std::uint32_t bucket, Row row) {
  if (older_) older_->keep_row(bucket, row);
  Kept& kept = kept_[bucket];
  if (kept.rows_are_dropped || is_broken_ || !is_unchanged(row)) return;
  try {
    if (kept.num_rows == kept.chunks.size() * Kept::kChunkRows) {
      kept.chunks.push_back(arena_.allocate(Kept::kChunkRows * stride_));
    }
    float* copy = kept.row(kept.num_rows, stride_).address();
    std::memcpy(copy, row.address(), stride_ * sizeof(float));
    ++kept.num_rows;
  } catch (const std::bad_alloc&) {
    is_broken_ = true;
  }
}

void CutContent::keep_candidate(std::uint32_t bucket, const Candidate& before) {
  if (older_) older_->keep_candidate(bucket, before);
  Kept& kept = kept_[bucket];
  if (kept.candidates_are_dropped || is_broken_) return;
  try {
    kept.candidates.try_emplace(before.id, before);  // the first one is that of the cut
  } catch (const std::bad_alloc&) {
    is_broken_ = true;
  }
}

void CutContent::keep_all(std::vector<Bucket> buckets, Arena& arena) {
  const auto cleared = std::make_shared<Cleared>();
  cleared->buckets = std::move(buckets);
  cleared->arena.take_over(arena);
  keep_all(cleared);
}

void CutContent::keep_all(const std::shared_ptr<Cleared>& cleared) {
  if (older_) std::exchange(older_, nullptr)->keep_all(cleared);
  cleared_ = cleared;
  buckets_ = cleared->buckets;
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
