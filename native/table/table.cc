// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/table.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "fleetrec/table/cut_content.h"

namespace fleetrec {
namespace {

void check(const TableOptions& options) {
  constexpr std::size_t kMaxDim = 1 << 16;
  if (options.dim == 0 || options.dim > kMaxDim) {
    throw std::invalid_argument("table " + options.name + ": dim must be from 1 to " +
                                std::to_string(kMaxDim));
  }
  constexpr std::uint64_t kMaxRows = std::uint64_t{kNumBuckets} * 0xFFFFFFF0u;
  if (options.num_rows && (*options.num_rows == 0 || *options.num_rows > kMaxRows)) {
    throw std::invalid_argument("table " + options.name + ": num_rows must be from 1 to " +
                                std::to_string(kMaxRows));
  }
  if (options.folds_ids && !options.num_rows) {
    throw std::invalid_argument("table " + options.name +
                                ": ids can be hashed only into a given num_rows");
  }
  if (options.first_bucket > options.last_bucket || options.last_bucket > kNumBuckets) {
    throw std::invalid_argument("table " + options.name + ": no such buckets");
  }
}

template <typename Value>
std::size_t sum_over(std::span<const Bucket> buckets, const Value& value) {
  return std::transform_reduce(buckets.begin(), buckets.end(), std::size_t{0}, std::plus<>(),
                               value);
}

}  // namespace

Table::Table(TableOptions options, GuardedOptimizer optimizer)
    : options_(std::move(options)),
      optimizer_(std::move(optimizer)),
      layout_{options_.dim, optimizer_.state_size(options_.dim)},
      stride_(layout_.stride()),
      buckets_(kNumBuckets) {
  check(options_);
}

Row Table::admit(const Impression& impression) {
  const Place place = this->place(impression.id);
  if (options_.admission.kind == AdmissionKind::kAlways) return create(impression.id, place);
  Candidates& candidates = buckets_[place.bucket].candidates;
  if (cut_content_) cut_content_->keep_candidate(place.bucket, candidates.get(impression.id));
  const Candidate counted = candidates.count(impression.id, impression.now, impression.is_click);
  if (!options_.admission.admits(counted, impression.is_click)) return Row();
  const Row row = create(impression.id, place);
  candidates.erase(impression.id);  // now that nothing can fail any more
  if (options_.admission.kind == AdmissionKind::kCtr) return row;  // it counts from here on
  row.header().show = static_cast<float>(counted.show) - 1.0f;
  row.header().click = static_cast<float>(counted.click) - (impression.is_click ? 1.0f : 0.0f);
  if (options_.long_vector &&
      options_.long_vector->is_reached(row.header().show, row.header().click)) {
    lengthen(row);
  }
  return row;
}

void Table::lengthen_if_due(Row row, bool is_click) {
  const LongVector& rule = *options_.long_vector;
  const RowHeader& header = row.header();
  if (!rule.is_reached(header.show, header.click)) return;
  if (rule.is_reached(header.show - 1.0f, header.click - (is_click ? 1.0f : 0.0f))) return;
  if (LongVector::is_short(row.weights(layout_))) lengthen(row);
}

void Table::lengthen(Row row) {
  const float first = row.weights()[0];
  options_.initializer.fill(row.header().id(), row.weights(layout_));
  row.weights()[0] = first;
}

void Table::fill_new(std::uint64_t id, std::span<float> weights) const {
  options_.initializer.fill(id, weights);
  if (options_.long_vector) LongVector::shorten(weights);
}

Row Table::create(std::uint64_t id, Place place) {
  const Row row = add(id, place);
  fill_new(id, row.weights(layout_));
  optimizer_.init_state(row.state(layout_));
  return row;
}

Row Table::create_now(std::uint64_t id, Place place) {
  const Row row = create(id, place);
  Candidates& candidates = buckets_[place.bucket].candidates;
  const Candidate waiting = candidates.get(id);
  if (waiting.show == 0) return row;
  if (cut_content_) cut_content_->keep_candidate(place.bucket, waiting);
  candidates.erase(id);
  return row;
}

Row Table::add(std::uint64_t id, Place place) {
  Bucket& bucket = buckets_[place.bucket];
  const bool is_reused = !has_range() && !bucket.free.empty();
  std::uint32_t number = place.tag;
  if (is_reused) {
    number = bucket.free.back();
  } else if (!has_range()) {
    if (bucket.num_used == std::numeric_limits<std::uint32_t>::max() - 1) throw std::bad_alloc();
    number = bucket.num_used;
  }
  // Memory first: if there is none, the bucket stays as it was.
  const Row row = bucket.slab.provide(number, stride_, arena_);
  if (!has_range()) bucket.index.insert(place.tag, number);
  if (is_reused) bucket.free.pop_back();
  bucket.num_used = std::max(bucket.num_used, number + 1);
  row.header() = RowHeader{};
  row.header().set_id(id);
  row.header().version = version_;
  ++bucket.num_rows;
  ++bucket.counts.created;
  return row;
}

void Table::touch_first(Row row) {
  RowHeader& header = row.header();
  if (cut_content_) cut_content_->keep_row(place(header.id()).bucket, row);
  header.version = version_;
}

void Table::set_cut_content(std::shared_ptr<CutContent> content) {
  cut_content_ = std::move(content);
}

void Table::clear() {
  ++num_removals_;
  auto old = std::exchange(buckets_, std::vector<Bucket>(kNumBuckets));
  if (cut_content_) std::exchange(cut_content_, nullptr)->keep_all(std::move(old), arena_);
  arena_.clear();
  last_cut_ = {};
  num_dense_steps_ = 0.0f;
  ++num_clears_;
}

bool Table::remove(std::uint64_t id, Place place) {
  Bucket& bucket = buckets_[place.bucket];
  const Row row = find(id, place);
  if (!row) return false;
  ++num_removals_;
  if (cut_content_) cut_content_->keep_row(place.bucket, row);
  row.header().version = 0;
  if (!has_range()) {
    const auto is_it = [&](std::uint32_t number) { return bucket.slab.at(number, stride_) == row; };
    const std::uint32_t number = bucket.index.find(place.tag, is_it);
    bucket.index.erase(place.tag, number);
    bucket.free.push_back(number);
  }
  --bucket.num_rows;
  return true;
}

void Table::evict(std::uint64_t id, Place place, RuleCount rule) {
  if (!find(id, place)) return;
  Bucket& bucket = buckets_[place.bucket];
  if (needs_tombstones()) bucket.tombstones.push_back(id);  // first: it may fail
  remove(id, place);
  ++bucket.counts.evicted;
  if (rule != nullptr) ++(bucket.counts.*rule);
}

void Table::remove_cut() {
  --num_cuts_;
  if (needs_tombstones()) return;
  for (Bucket& bucket : buckets_) bucket.tombstones = {};
}

void Table::forget_candidates(std::uint32_t bucket, std::uint32_t time) {
  Candidates& candidates = buckets_[bucket].candidates;
  if (cut_content_) {
    for (const Candidate& candidate : candidates.entries()) {
      if (candidate.show == 0 || candidate.last_seen >= time) continue;
      cut_content_->keep_candidate(bucket, candidate);
    }
  }
  candidates.erase_older(time);
}

std::size_t Table::size() const {
  return sum_over(buckets_, [](const Bucket& bucket) { return bucket.num_rows; });
}

std::size_t Table::num_candidates() const {
  return sum_over(buckets_, [](const Bucket& bucket) { return bucket.candidates.size(); });
}

std::size_t Table::num_bytes() const {
  const std::size_t owned = sum_over(buckets_, [](const Bucket& bucket) {
    return sizeof(Bucket) + bucket.slab.num_bytes() + bucket.index.num_bytes() +
           bucket.candidates.num_bytes() + bucket.free.capacity() * sizeof(std::uint32_t) +
           bucket.tombstones.capacity() * sizeof(std::uint64_t);
  });
  return owned + arena_.num_bytes();
}

TableCounts Table::counts() const {
  TableCounts all;
  for (const Bucket& bucket : buckets_) {
    all.created += bucket.counts.created;
    all.evicted += bucket.counts.evicted;
    all.evicted_unseen += bucket.counts.evicted_unseen;
    all.evicted_score += bucket.counts.evicted_score;
    all.evicted_capacity += bucket.counts.evicted_capacity;
  }
  return all;
}

void Table::set_counts(const TableCounts& counts) {
  for (Bucket& bucket : buckets_) bucket.counts = {};
  buckets_.front().counts = counts;
}

}  // namespace fleetrec
