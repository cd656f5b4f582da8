// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/columns.h"

#include <new>
#include <stdexcept>

namespace fleetrec {

std::vector<std::size_t> widths_of(std::span<const DenseSlot> dense) {
  std::vector<std::size_t> widths;
  for (const DenseSlot& slot : dense) {
    if (slot.width == 0) {
      throw std::invalid_argument("dense slot '" + slot.name + "' must have a width of at least 1");
    }
    widths.push_back(slot.width);
  }
  return widths;
}

std::vector<std::string> all_names(std::vector<std::string> sparse,
                                   std::span<const DenseSlot> dense) {
  for (const DenseSlot& slot : dense) sparse.push_back(slot.name);
  return sparse;
}

ParsedSlots::ParsedSlots(const ColumnsShape& shape)
    : num_samples(shape.num_samples),
      ids(std::make_unique_for_overwrite<std::int64_t[]>(shape.num_sparse * num_samples)) {
  const std::span widths = shape.widths;
  const std::size_t num_offsets = shape.num_sparse * num_samples + 1;
  const std::size_t num_slots = shape.num_sparse + widths.size();
  std::size_t num_floats = 0;
  for (const std::size_t width : widths) {
    // Widths come from a job file: their product with the samples must not wrap around.
    constexpr std::size_t kMaxFloats = PTRDIFF_MAX / (2 * sizeof(float));
    if (num_samples > 0 && width > (kMaxFloats - num_floats) / num_samples) throw std::bad_alloc();
    num_floats += num_samples * width;
  }
  shared = std::make_unique_for_overwrite<std::byte[]>(
      (num_offsets + num_slots) * sizeof(std::int64_t) + num_floats * sizeof(float));
  auto* integers = reinterpret_cast<std::int64_t*>(shared.get());
  offsets = {integers, num_offsets};
  seen = {integers + num_offsets, num_slots};
  auto* floats = reinterpret_cast<float*>(integers + num_offsets + num_slots);
  for (const std::size_t width : widths) {
    dense.emplace_back(floats, num_samples * width);
    floats += num_samples * width;
  }
}

void SparseValues::grow() {
  auto larger = std::make_unique_for_overwrite<std::int64_t[]>(capacity_ * 2);
  std::copy_n(ids_, num_ids_, larger.get());
  moved_ = std::move(larger);
  ids_ = moved_.get();
  capacity_ *= 2;
}

Columns::Columns(ParsedSlots& parsed, const ColumnsShape& shape, SampleRange range)
    : offsets_(parsed.offsets.data() + 1 + range.first),
      num_samples_(shape.num_samples),
      padding_(shape.padding),
      range_(range),
      sample_(range.first) {
  sparse_.reserve(shape.num_sparse);
  for (std::size_t slot = 0; slot < shape.num_sparse; ++slot) {
    std::int64_t* home = parsed.ids.get() + slot * num_samples_ + range.first;
    sparse_.emplace_back(std::span(home, range.size()), shape.has_weights);
  }
  dense_.reserve(parsed.dense.size());
  for (std::size_t slot = 0; slot < parsed.dense.size(); ++slot) {
    const std::size_t width = shape.widths[slot];
    dense_.emplace_back(parsed.dense[slot].subspan(range.first * width, range.size() * width),
                        width);
  }
}

void Columns::check_room() const {
  if (sample_ == range_.last) throw std::runtime_error("the text changed while it was parsed");
}

void Columns::check_full() const {
  if (sample_ != range_.last) throw std::runtime_error("the text changed while it was parsed");
}

void Columns::end_sample() {
  std::int64_t* end = offsets_++;
  auto begin_of_slot = static_cast<std::int64_t>(range_.first);
  for (SparseValues& values : sparse_) {
    *end = begin_of_slot + static_cast<std::int64_t>(values.end_sample(padding_));
    end += num_samples_;
    begin_of_slot += static_cast<std::int64_t>(num_samples_);
  }
  const auto padding = static_cast<float>(static_cast<double>(padding_));
  for (DenseRows& rows : dense_) rows.end_sample(padding);
  ++sample_;
}

namespace {

// Calls `visit(values, range)` for the ids of every slot, range after range.
template <typename Visit>
void each_stretch_of_ids(std::size_t num_sparse, std::span<const Columns* const> ranges,
                         const Visit& visit) {
  for (std::size_t slot = 0; slot < num_sparse; ++slot) {
    for (const Columns* columns : ranges) visit(columns->sparse()[slot], columns->range());
  }
}

// Slots start one behind the other, and their ids follow if they are not in place already.
void gather_ids(ParsedSlots& parsed, const ColumnsShape& shape,
                std::span<const Columns* const> ranges) {
  parsed.offsets[0] = 0;
  each_stretch_of_ids(shape.num_sparse, ranges, [&](const SparseValues& values, SampleRange) {
    for (const std::size_t place : values.padded()) {
      parsed.padded.push_back(static_cast<std::int64_t>(parsed.num_ids + place));
    }
    parsed.num_ids += values.ids().size();
  });
  // No slot has fewer ids than samples, so the sum shows that none has more: all are in place.
  if (parsed.num_ids == shape.num_sparse * shape.num_samples) return;
  auto gathered = std::make_unique_for_overwrite<std::int64_t[]>(parsed.num_ids);
  std::int64_t* ids = gathered.get();
  std::int64_t* end = parsed.offsets.data() + 1;
  std::size_t num_homes = 0;
  each_stretch_of_ids(shape.num_sparse, ranges, [&](const SparseValues& values, SampleRange range) {
    const std::int64_t shift = ids - gathered.get() - static_cast<std::int64_t>(num_homes);
    for (std::size_t i = 0; i < range.size(); ++i) *end++ += shift;
    num_homes += range.size();
    ids = std::ranges::copy(values.ids(), ids).out;
  });
  parsed.ids = std::move(gathered);
}

void gather_weights(ParsedSlots& parsed, const ColumnsShape& shape,
                    std::span<const Columns* const> ranges) {
  parsed.weights = std::make_unique_for_overwrite<float[]>(parsed.num_ids);
  float* weights = parsed.weights.get();
  each_stretch_of_ids(shape.num_sparse, ranges, [&](const SparseValues& values, SampleRange) {
    weights = std::ranges::copy(values.weights(), weights).out;
  });
}

}  // namespace

void finish_columns(ParsedSlots& parsed, const ColumnsShape& shape,
                    std::span<const Columns* const> ranges) {
  std::ranges::fill(parsed.seen, 0);
  for (const Columns* columns : ranges) {
    columns->check_full();
    auto seen = parsed.seen.begin();
    for (const SparseValues& values : columns->sparse()) *seen++ += values.num_seen();
    for (const DenseRows& rows : columns->dense()) *seen++ += rows.num_seen();
  }
  gather_ids(parsed, shape, ranges);
  if (shape.has_weights) gather_weights(parsed, shape, ranges);
}

}  // namespace fleetrec
