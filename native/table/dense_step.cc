// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/dense_step.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "fleetrec/parallel.h"

namespace fleetrec {
namespace {

// A table that was read from a snapshot continues from the steps that its rows count.
float steps_of_rows(const Table& table) {
  float most = 0.0f;
  for (std::uint32_t bucket = 0; bucket < kNumBuckets; ++bucket) {
    table.each_row(bucket, [&](const Row& row) {
      most = std::max(most, table.optimizer().num_steps(row.state(table.layout())));
    });
  }
  return most;
}

}  // namespace

void update_other_rows(Table& table, std::span<const std::int64_t> ids, float lr) {
  const std::lock_guard lock(table.mutex());
  std::unordered_set<std::uint64_t> with_gradient;
  with_gradient.reserve(ids.size());
  for (const std::int64_t id : ids) {
    with_gradient.insert(table.row_id(static_cast<std::uint64_t>(id)));
  }
  if (table.num_dense_steps() == 0.0f) table.set_num_dense_steps(steps_of_rows(table));
  const float num_steps = table.num_dense_steps();
  const RowLayout& layout = table.layout();
  parallel_for(kNumBuckets, [&](std::size_t bucket) {
    std::vector<float> zeros(layout.dim);
    table.each_row(static_cast<std::uint32_t>(bucket), [&](Row row) {
      table.touch(row);
      table.optimizer().set_num_steps(row.state(layout), num_steps);
      if (with_gradient.contains(row.header().id())) return;
      table.optimizer().update(row.weights(layout), row.state(layout), zeros, lr);
    });
  });
  table.set_num_dense_steps(std::min(num_steps + 1.0f, 0x1p24f));
}

}  // namespace fleetrec
