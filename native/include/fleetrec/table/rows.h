// SPDX-License-Identifier: Apache-2.0
// All rows of a table as columns, for files and for Python.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fleetrec/table/table.h"

namespace fleetrec {

// Equal lengths; `weights` and `state` have the table's widths per row.
struct RowColumns {
  std::span<std::int64_t> ids;
  std::span<float> weights;
  std::span<float> state;
  std::span<float> shows;
  std::span<float> clicks;
  std::span<std::uint32_t> last_seen;
};

// Counters of the ids that have no row, of equal lengths.
struct CandidateColumns {
  std::span<std::int64_t> ids;
  std::span<std::uint32_t> last_seen;
  std::span<std::uint32_t> counts;  // shows, and clicks times 65536
};

// All counters, ordered by unsigned id.
std::vector<Candidate> sorted_candidates(const Table& table);

void copy_candidates(std::span<const Candidate> candidates, const CandidateColumns& columns);

// Every row there is, ordered by unsigned id: the same rows give the same list, whatever the order
// they came in.
std::vector<Row> sorted_rows(const Table& table);

// Fills columns that are as long as `rows`.
void copy_rows(const Table& table, std::span<const Row> rows, const RowColumns& columns);

// Adds rows. Empty spans of state, shows, clicks or last_seen mean: as in a new row. Throws
// std::invalid_argument for ids that lie out of range, before anything has changed, and for the
// first that has a row already.
void add_rows(Table& table, const RowColumns& columns);

}  // namespace fleetrec
