// SPDX-License-Identifier: Apache-2.0
// What a row is in memory: a header, the weights, the state of the optimizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fleetrec {

// Only 4-byte members, so that rows may follow each other at any multiple of 4 bytes.
struct RowHeader {
  std::uint32_t id_low;
  std::uint32_t id_high;
  std::uint32_t last_seen;  // event time, in seconds
  float show;               // how often the id occurred in training
  float click;              // how often with a positive label
  std::uint32_t version;    // of the table when the row last changed; 0: there is no row
  std::uint32_t unique;     // scratch of the running lookup

  std::uint64_t id() const { return id_low | (std::uint64_t{id_high} << 32); }
  void set_id(std::uint64_t id) {
    id_low = static_cast<std::uint32_t>(id);
    id_high = static_cast<std::uint32_t>(id >> 32);
  }
};
static_assert(sizeof(RowHeader) == 28 && alignof(RowHeader) == 4);

// Widths of a table's rows, in floats.
struct RowLayout {
  std::size_t dim;
  std::size_t state_size;

  static constexpr std::size_t kHeaderFloats = sizeof(RowHeader) / sizeof(float);

  std::size_t stride() const { return kHeaderFloats + dim + state_size; }
};

// A view of one row in a slab.
class Row {
 public:
  Row() = default;
  explicit Row(float* first) : first_(first) {}

  explicit operator bool() const { return first_ != nullptr; }
  bool operator==(const Row&) const = default;

  RowHeader& header() const { return *reinterpret_cast<RowHeader*>(first_); }
  float* weights() const { return first_ + RowLayout::kHeaderFloats; }
  std::span<float> weights(const RowLayout& layout) const { return {weights(), layout.dim}; }
  std::span<float> state(const RowLayout& layout) const {
    return {weights() + layout.dim, layout.state_size};
  }
  float* address() const { return first_; }

 private:
  float* first_ = nullptr;
};

}  // namespace fleetrec
