// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/rows.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "fleetrec/parallel.h"

namespace fleetrec {
namespace {

constexpr std::size_t kRowsPerTask = 4096;

void check_range(const Table& table, std::span<const std::int64_t> ids) {
  for (const std::int64_t signed_id : ids) {
    const auto id = static_cast<std::uint64_t>(signed_id);
    if (table.is_in_range(id)) continue;
    throw std::invalid_argument("id " + std::to_string(id) + " lies out of the table's range");
  }
}

}  // namespace

std::vector<Row> sorted_rows(const Table& table) {
  std::vector<Row> rows;
  rows.reserve(table.size());
  for (std::uint32_t bucket = 0; bucket < kNumBuckets; ++bucket) {
    table.each_row(bucket, [&](const Row& row) { rows.push_back(row); });
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return row.header().id(); });
  return rows;
}

void copy_rows(const Table& table, std::span<const Row> rows, const RowColumns& columns) {
  const RowLayout& layout = table.layout();
  parallel_for((rows.size() + kRowsPerTask - 1) / kRowsPerTask, [&](std::size_t task) {
    const std::size_t last = std::min((task + 1) * kRowsPerTask, rows.size());
    for (std::size_t i = task * kRowsPerTask; i < last; ++i) {
      const RowHeader& header = rows[i].header();
      columns.ids[i] = static_cast<std::int64_t>(header.id());
      columns.shows[i] = header.show;
      columns.clicks[i] = header.click;
      columns.last_seen[i] = header.last_seen;
      std::ranges::copy(rows[i].weights(layout), &columns.weights[i * layout.dim]);
      const auto state = rows[i].state(layout);
      std::ranges::copy(state,
                        columns.state.begin() + static_cast<std::ptrdiff_t>(i * state.size()));
    }
  });
}

std::vector<Candidate> sorted_candidates(const Table& table) {
  std::vector<Candidate> all;
  all.reserve(table.num_candidates());
  for (const Bucket& bucket : table.buckets()) {
    std::ranges::copy_if(bucket.candidates.entries(), std::back_inserter(all),
                         [](const Candidate& candidate) { return candidate.show != 0; });
  }
  std::ranges::sort(all, {}, &Candidate::id);
  return all;
}

void copy_candidates(std::span<const Candidate> candidates, const CandidateColumns& columns) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    columns.ids[i] = static_cast<std::int64_t>(candidates[i].id);
    columns.last_seen[i] = candidates[i].last_seen;
    columns.counts[i] = candidates[i].show | (std::uint32_t{candidates[i].click} << 16);
  }
}

void add_rows(Table& table, const RowColumns& columns) {
  check_range(table, columns.ids);
  const RowLayout& layout = table.layout();
  for (std::size_t i = 0; i < columns.ids.size(); ++i) {
    const auto id = static_cast<std::uint64_t>(columns.ids[i]);
    const Place place = table.place(id);
    if (table.find(id, place)) {
      throw std::invalid_argument("id " + std::to_string(id) + " occurs twice");
    }
    const Row row = table.create_now(id, place);
    std::copy_n(&columns.weights[i * layout.dim], layout.dim, row.weights());
    if (!columns.state.empty()) {
      std::copy_n(&columns.state[i * layout.state_size], layout.state_size,
                  row.state(layout).data());
    }
    if (!columns.shows.empty()) row.header().show = columns.shows[i];
    if (!columns.clicks.empty()) row.header().click = columns.clicks[i];
    if (!columns.last_seen.empty()) row.header().last_seen = columns.last_seen[i];
  }
}

}  // namespace fleetrec
