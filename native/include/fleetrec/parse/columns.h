// SPDX-License-Identifier: Apache-2.0
// Samples as columns: written value by value while a text or a record is parsed, then handed out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fleetrec {

struct DenseSlot {
  std::string name;
  std::size_t width;
};

// Throws std::invalid_argument for a width of 0.
std::vector<std::size_t> widths_of(std::span<const DenseSlot> dense);

// The names in order, sparse before dense.
std::vector<std::string> all_names(std::vector<std::string> sparse,
                                   std::span<const DenseSlot> dense);

// What the columns of a parse are made for.
struct ColumnsShape {
  std::size_t num_samples;
  std::size_t num_sparse;
  std::span<const std::size_t> widths;
  std::int64_t padding;
  bool has_weights = false;
};

// The arrays lie in two blocks, not in one each: what the C library does with freed blocks goes by
// the largest one, and many that are smaller but large together are given back to the system, whose
// page faults cost a fifth of the time in the next call.
struct ParsedSlots {
  explicit ParsedSlots(const ColumnsShape& shape);

  std::size_t num_samples;
  std::size_t num_ids = 0;
  std::unique_ptr<std::int64_t[]> ids;  // feature-major: slot 0 of all samples, then slot 1
  std::unique_ptr<float[]> weights;     // one per id; empty where the format has none
  std::unique_ptr<std::byte[]> shared;  // the memory of the spans
  std::span<std::int64_t> offsets;      // num_sparse * num_samples + 1, running over `ids`
  std::span<std::int64_t> seen;         // by declared slot, the samples in which it occurred
  std::vector<std::int64_t> padded;     // places in `ids` of those that stand for a missing slot
  std::vector<std::span<float>> dense;  // num_samples rows of the slot's width each
  std::vector<std::pair<std::string, std::int64_t>> undeclared;  // values by slot name
  std::int64_t num_empty = 0;
};

// The ids of one sparse slot, sample after sample. They are written to where they will stay if
// every sample has one, which is what most slots are like, and move away otherwise.
class SparseValues {
 public:
  SparseValues(std::span<std::int64_t> home, bool has_weights)
      : ids_(home.data()), capacity_(home.size()), has_weights_(has_weights) {}

  void push(std::int64_t id) {
    if (num_ids_ == capacity_) [[unlikely]] {
      grow();
    }
    ids_[num_ids_++] = id;
  }

  // All ids of a slot have weights or none has; those of none weigh 1.
  void push(std::int64_t id, float weight) {
    push(id);
    weights_.push_back(weight);
  }

  // Returns the number of ids up to and with this sample.
  std::size_t end_sample(std::int64_t padding) {
    if (num_ids_ == sample_begin_) {
      padded_.push_back(num_ids_);
      push(padding);
    } else {
      ++num_seen_;
    }
    if (has_weights_) weights_.resize(num_ids_, 1.0f);
    return sample_begin_ = num_ids_;
  }

  std::span<const std::int64_t> ids() const { return {ids_, num_ids_}; }
  std::span<const float> weights() const { return weights_; }
  std::span<const std::size_t> padded() const { return padded_; }
  std::int64_t num_seen() const { return num_seen_; }

 private:
  void grow();

  std::int64_t* ids_;
  std::unique_ptr<std::int64_t[]> moved_;  // empty while the ids are at home
  std::vector<float> weights_;
  std::vector<std::size_t> padded_;  // places of paddings
  std::size_t num_ids_ = 0;
  std::size_t capacity_;
  std::size_t sample_begin_ = 0;
  std::int64_t num_seen_ = 0;
  bool has_weights_;
};

// The rows of one dense slot, written where Python will read them.
class DenseRows {
 public:
  DenseRows(std::span<float> rows, std::size_t width) : row_(rows.data()), width_(width) {}

  // Values beyond the width are only counted; the end of the sample refuses them.
  void push(float number) {
    if (num_values_ < width_) row_[num_values_] = number;
    ++num_values_;
  }

  bool is_wrong() const { return num_values_ != 0 && num_values_ != width_; }

  void end_sample(float padding) {
    if (num_values_ == 0) {
      std::fill_n(row_, width_, padding);
    } else {
      ++num_seen_;
    }
    row_ += width_;
    num_values_ = 0;
  }

  std::size_t num_values() const { return num_values_; }
  std::size_t width() const { return width_; }
  std::int64_t num_seen() const { return num_seen_; }

 private:
  float* row_;  // of this sample
  std::size_t width_;
  std::size_t num_values_ = 0;  // in this sample
  std::int64_t num_seen_ = 0;
};

// Some samples of a parse, from the first one up to before the last.
struct SampleRange {
  std::size_t first;
  std::size_t last;

  std::size_t size() const { return last - first; }
};

// The columns of some samples. Values are pushed in any order of slots, then the sample is ended.
// Different ranges of one parse may be filled by different threads; `finish_columns` joins them.
class Columns {
 public:
  // Writes into `parsed`, which must have this shape and stay where it is.
  Columns(ParsedSlots& parsed, const ColumnsShape& shape, SampleRange range);

  SparseValues& sparse(std::size_t slot) { return sparse_[slot]; }
  DenseRows& dense(std::size_t slot) { return dense_[slot]; }
  std::span<const SparseValues> sparse() const { return sparse_; }
  std::span<const DenseRows> dense() const { return dense_; }
  SampleRange range() const { return range_; }

  // What was allocated must hold: a mapped file can change while it is parsed.
  void check_room() const;
  void end_sample();
  // Throws if samples are missing.
  void check_full() const;

 private:
  std::int64_t* offsets_;    // of the first slot's next sample, as if every list had one id
  std::size_t num_samples_;  // of the whole parse
  std::int64_t padding_;
  SampleRange range_;
  std::size_t sample_;
  std::vector<SparseValues> sparse_;
  std::vector<DenseRows> dense_;
};

// Makes one of columns that together are all samples, in order.
void finish_columns(ParsedSlots& parsed, const ColumnsShape& shape,
                    std::span<const Columns* const> ranges);

}  // namespace fleetrec
