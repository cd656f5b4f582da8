// SPDX-License-Identifier: Apache-2.0
// Samples to TFRecords of tf.Example messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fleetrec {

struct DenseColumn {
  std::string_view name;
  std::span<const float> values;  // `width` per sample
  std::size_t width;
};

// Lists of ids, column by column: see JaggedIds.
struct SampleColumns {
  std::size_t num_samples;
  std::vector<std::string_view> sparse;  // names of the columns of ids
  std::span<const std::int64_t> ids;
  std::span<const std::int64_t> offsets;
  std::vector<DenseColumn> dense;
};

// Returns one record per sample: ids as int64_list, numbers as float_list. Throws
// std::invalid_argument if the sizes do not fit.
std::string write_examples(const SampleColumns& samples);

}  // namespace fleetrec
