// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/rows.h"

#include <algorithm>
#include <stdexcept>

#include "check.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

// Owns the columns of a table.
struct Columns {
  explicit Columns(const Table& table)
      : ids(table.size()),
        weights(table.size() * table.layout().dim),
        state(table.size() * table.layout().state_size),
        shows(table.size()),
        clicks(table.size()),
        last_seen(table.size()) {
    copy_rows(table, sorted_rows(table), view());
  }

  RowColumns view() { return {ids, weights, state, shows, clicks, last_seen}; }
  bool operator==(const Columns&) const = default;

  std::vector<std::int64_t> ids;
  std::vector<float> weights;
  std::vector<float> state;
  std::vector<float> shows;
  std::vector<float> clicks;
  std::vector<std::uint32_t> last_seen;
};

BatchLookup single(const std::shared_ptr<Table>& table) {
  return BatchLookup({table}, {{.column = 0, .table = 0, .combiner = Combiner::kSum}});
}

void train(const std::shared_ptr<Table>& table, Random& random, std::uint32_t now) {
  const Lists lists = random_lists(random, 1, 500, 3000, 3);
  BatchLookup lookup = single(table);
  lookup.find(lists.view(), {.purpose = Purpose::kTrain, .now = now});
  lookup.apply(random_floats(random, 500 * table->layout().dim), 0.1f);
}

}  // namespace

TEST(a_table_that_was_dumped_and_restored_trains_on_equal) {
  for (const RowOptimizerInfo& info : row_optimizers()) {
    const TableChoice choice{.optimizer = std::string(info.name)};
    const auto straight = make_table(choice);
    Random random(6);
    for (std::uint32_t step = 0; step < 4; ++step) train(straight, random, step);
    const auto resumed = make_table(choice);
    Columns dumped(*straight);
    CHECK(std::ranges::is_sorted(dumped.ids));
    add_rows(*resumed, dumped.view());
    CHECK(Columns(*resumed) == dumped);
    Random other = random;
    for (std::uint32_t step = 4; step < 8; ++step) {
      train(straight, random, step);
      train(resumed, other, step);
    }
    CHECK(Columns(*resumed) == Columns(*straight));
  }
}

TEST(columns_that_are_not_given_are_as_in_a_new_row) {
  const auto table = make_table({.dim = 2});
  std::vector<std::int64_t> ids{-1, 3};
  std::vector<float> weights{1.0f, 2.0f, 3.0f, 4.0f};
  add_rows(
      *table,
      {.ids = ids, .weights = weights, .state = {}, .shows = {}, .clicks = {}, .last_seen = {}});
  const Columns columns(*table);
  CHECK(columns.ids == std::vector<std::int64_t>{3, -1});  // ordered as unsigned
  CHECK(columns.weights == std::vector<float>{3.0f, 4.0f, 1.0f, 2.0f});
  CHECK(columns.state == std::vector<float>(4, 0.0f) && columns.shows == std::vector<float>(2));
}

TEST(rows_are_added_to_those_there_are_unless_twice_or_out_of_range) {
  const auto table = make_table({.dim = 1, .num_rows = 10});
  table->create(4, table->place(4));
  std::vector<float> weights{1.0f, 2.0f};
  const auto add = [&](std::vector<std::int64_t> ids) {
    add_rows(*table, {.ids = ids,
                      .weights = weights,
                      .state = {},
                      .shows = weights,
                      .clicks = {},
                      .last_seen = {}});
  };
  add({9, 3});
  CHECK(Columns(*table).ids == std::vector<std::int64_t>({3, 4, 9}));
  CHECK(Columns(*table).shows == std::vector<float>({2.0f, 0.0f, 1.0f}));
  CHECK_THROWS(std::invalid_argument, add({1, 10}));
  CHECK_THROWS(std::invalid_argument, add({4, 5}));
  CHECK(table->size() == 3);
}

TEST(counts_continue_from_earlier_counts) {
  const auto table = make_table();
  table->create(4, table->place(4));
  table->set_counts({.created = 7, .evicted = 5});
  table->create(6, table->place(6));
  table->evict(4, table->place(4));
  CHECK(table->counts().created == 8 && table->counts().evicted == 6);
}

}  // namespace fleetrec::testing
