// SPDX-License-Identifier: Apache-2.0
// Access to a table for other processes: reads and writes rows, and counts impressions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fleetrec/table/table.h"

namespace fleetrec {

// Missing rows: absent, or as they will be created if every id gets one.
enum class Missing { kAbsent, kAsNew };

// Throws std::invalid_argument for the first id that is out of range or in a bucket of another
// process. Ids must be those under which rows are stored.
void check_held(const Table& table, std::span<const std::int64_t> ids);

// Copies rows and reports which exist; missing ones are zeros. Changes nothing.
void read_rows(Table& table, std::span<const std::int64_t> ids, Missing missing,
               std::span<float> weights, std::span<std::uint8_t> is_there);

// Sets the weights of rows, each id once; missing rows are created. Optimizer state of existing
// rows does not change.
void write_rows(Table& table, std::span<const std::int64_t> ids, std::span<const float> weights);

// Removes rows and leaves no tombstones: for a copy of a table that no delta is made of. Returns
// how many there were. Ids must be those under which rows are stored; other ids are skipped.
std::size_t remove_rows(Table& table, std::span<const std::int64_t> ids);

// How often each id was seen in training, and how often with a click.
struct Impressions {
  std::span<const std::int64_t> ids;
  std::span<const std::uint32_t> shows;
  std::span<const std::uint32_t> clicks;  // at most `shows`
  std::uint32_t now;                      // event time, in seconds
};

// Counts all impressions, and creates rows for ids that are admitted.
void count_impressions(Table& table, const Impressions& impressions);

}  // namespace fleetrec
