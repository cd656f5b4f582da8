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

ParsedSlots::ParsedSlots(std::size_t samples, std::size_t num_sparse,
                         std::span<const std::size_t> widths)
    : num_samples(samples),
      ids(std::make_unique_for_overwrite<std::int64_t[]>(num_sparse * samples)) {
  const std::size_t num_offsets = num_sparse * samples + 1;
  const std::size_t num_slots = num_sparse + widths.size();
  std::size_t num_floats = 0;
  for (const std::size_t width : widths) {
    // Widths come from a job file: their product with the samples must not wrap around.
    constexpr std::size_t kMaxFloats = PTRDIFF_MAX / (2 * sizeof(float));
    if (samples > 0 && width > (kMaxFloats - num_floats) / samples) throw std::bad_alloc();
    num_floats += samples * width;
  }
  shared = std::make_unique_for_overwrite<std::byte[]>(
      (num_offsets + num_slots) * sizeof(std::int64_t) + num_floats * sizeof(float));
  auto* integers = reinterpret_cast<std::int64_t*>(shared.get());
  offsets = {integers, num_offsets};
  seen = {integers + num_offsets, num_slots};
  auto* floats = reinterpret_cast<float*>(integers + num_offsets + num_slots);
  for (const std::size_t width : widths) {
    dense.emplace_back(floats, samples * width);
    floats += samples * width;
  }
}

void SparseValues::grow() {
  auto larger = std::make_unique_for_overwrite<std::int64_t[]>(capacity_ * 2);
  std::copy_n(ids_, num_ids_, larger.get());
  moved_ = std::move(larger);
  ids_ = moved_.get();
  capacity_ *= 2;
}

Columns::Columns(const Shape& shape)
    : shape_(shape), parsed_(shape.num_samples, shape.num_sparse, shape.widths) {
  sparse_.reserve(shape.num_sparse);
  for (std::size_t slot = 0; slot < shape.num_sparse; ++slot) {
    std::int64_t* home = parsed_.ids.get() + slot * shape.num_samples;
    sparse_.emplace_back(std::span(home, shape.num_samples), shape.has_weights);
  }
  dense_.reserve(parsed_.dense.size());
  for (std::size_t slot = 0; slot < parsed_.dense.size(); ++slot) {
    dense_.emplace_back(parsed_.dense[slot], shape.widths[slot]);
  }
}

void Columns::check_room() const {
  if (sample_ == shape_.num_samples) {
    throw std::runtime_error("the text changed while it was parsed");
  }
}

void Columns::end_sample() {
  std::int64_t* end = parsed_.offsets.data() + 1 + sample_;
  for (SparseValues& values : sparse_) {
    *end = static_cast<std::int64_t>(values.end_sample(shape_.padding));
    end += shape_.num_samples;
  }
  const auto padding = static_cast<float>(static_cast<double>(shape_.padding));
  for (DenseRows& rows : dense_) rows.end_sample(padding);
  ++sample_;
}

ParsedSlots Columns::finish() {
  if (sample_ != shape_.num_samples) {
    throw std::runtime_error("the text changed while it was parsed");
  }
  auto seen = parsed_.seen.begin();
  for (const SparseValues& values : sparse_) *seen++ = values.num_seen();
  for (const DenseRows& rows : dense_) *seen++ = rows.num_seen();
  gather_ids();
  if (shape_.has_weights) gather_weights();
  return std::move(parsed_);
}

// Slots start one behind the other, and their ids follow if they are not in place already.
void Columns::gather_ids() {
  std::int64_t* end = parsed_.offsets.data();
  *end++ = 0;
  std::size_t base = 0;
  for (const SparseValues& values : sparse_) {
    for (std::size_t i = 0; i < shape_.num_samples; ++i) *end++ += static_cast<std::int64_t>(base);
    base += values.ids().size();
  }
  parsed_.num_ids = base;
  // No slot has fewer ids than samples, so the sum tells that none has more.
  if (base == shape_.num_sparse * shape_.num_samples) return;
  auto gathered = std::make_unique_for_overwrite<std::int64_t[]>(base);
  std::int64_t* ids = gathered.get();
  for (const SparseValues& values : sparse_) ids = std::ranges::copy(values.ids(), ids).out;
  parsed_.ids = std::move(gathered);
}

void Columns::gather_weights() {
  parsed_.weights = std::make_unique_for_overwrite<float[]>(parsed_.num_ids);
  float* weights = parsed_.weights.get();
  for (const SparseValues& values : sparse_) {
    weights = std::ranges::copy(values.weights(), weights).out;
  }
}

}  // namespace fleetrec
