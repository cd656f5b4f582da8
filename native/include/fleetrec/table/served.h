// SPDX-License-Identifier: Apache-2.0
// What a process does with its table for others: hands rows out, and counts what they have seen.
#pragma once

#include <cstdint>
#include <span>

#include "fleetrec/table/table.h"

namespace fleetrec {

// Rows that are not there yet: absent, or as they will be made if every id gets one.
enum class Missing { kAbsent, kAsNew };

// Throws std::invalid_argument for the first id that lies out of range or in a bucket of another
// process. Ids must be those under which rows are kept.
void check_held(const Table& table, std::span<const std::int64_t> ids);

// Copies rows and says which are there; of others the weights are zeros. Changes nothing.
void read_rows(Table& table, std::span<const std::int64_t> ids, Missing missing,
               std::span<float> weights, std::span<std::uint8_t> is_there);

// Sets the weights of rows, each id once; those that are missing are made. Their optimizer state
// stays as it is.
void write_rows(Table& table, std::span<const std::int64_t> ids, std::span<const float> weights);

// How often each id was seen in training, and how often with a click.
struct Sights {
  std::span<const std::int64_t> ids;
  std::span<const std::uint32_t> shows;
  std::span<const std::uint32_t> clicks;  // at most as many
  std::uint32_t now;                      // event time, in seconds
};

// Counts them all, and gives rows to those that are admitted.
void see_all(Table& table, const Sights& sights);

}  // namespace fleetrec
