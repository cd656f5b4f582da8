// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/served.h"

#include <algorithm>
#include <stdexcept>

#include "check.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

constexpr std::size_t kDim = 3;
constexpr float kLr = 0.1f;

std::vector<std::shared_ptr<Table>> two_tables() {
  return {make_table({.dim = kDim, .optimizer = "adam"}),
          make_table({.dim = kDim, .num_rows = 50, .salt = 8, .folds_ids = true})};
}

std::vector<LookupFeature> four_features() {
  return {{.column = 0, .table = 0, .combiner = Combiner::kMean},
          {.column = 1, .table = 1, .combiner = Combiner::kSum},
          {.column = 2, .table = 0, .combiner = Combiner::kNone, .max_length = 2},
          {.column = 1, .table = 0, .combiner = Combiner::kSqrtN}};
}

struct Listed {
  std::vector<std::int64_t> ids;
  std::vector<std::uint32_t> shows;
  std::vector<std::uint32_t> clicks;
};

Listed listed(const BatchLookup& lookup, std::size_t table) {
  const std::size_t size = lookup.num_listed(table);
  Listed columns{std::vector<std::int64_t>(size), std::vector<std::uint32_t>(size),
                 std::vector<std::uint32_t>(size)};
  lookup.copy_listed(table, {columns.ids, columns.shows, columns.clicks});
  return columns;
}

struct Read {
  std::vector<float> weights;
  std::vector<std::uint8_t> is_there;
};

Read read(Table& table, const std::vector<std::int64_t>& ids, Missing missing = Missing::kAsNew) {
  Read rows{std::vector<float>(ids.size() * table.layout().dim),
            std::vector<std::uint8_t>(ids.size())};
  read_rows(table, ids, missing, rows.weights, rows.is_there);
  return rows;
}

// Makes one step with rows that are read from `tables` and updated afterwards.
std::vector<float> step_from_afar(BatchLookup& lookup, std::vector<std::shared_ptr<Table>>& tables,
                                  const Lists& lists, const LookupContext& context,
                                  const std::vector<float>& grads) {
  lookup.list(lists.view(), context);
  std::vector<Listed> columns;
  std::vector<Read> rows;
  std::vector<ListedRows> used;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    columns.push_back(listed(lookup, t));
    rows.push_back(read(*tables[t], columns[t].ids));
  }
  for (const Read& one : rows) used.push_back({one.weights, one.is_there});
  lookup.set_rows(used);
  const std::vector<float> vectors = pooled(lookup, lists.num_samples);
  lookup.sum({.pooled = PooledGrad{grads, lookup.width()}});
  for (std::size_t t = 0; t < tables.size(); ++t) {
    count_impressions(*tables[t],
                      {columns[t].ids, columns[t].shows, columns[t].clicks, context.now});
    std::vector<std::uint64_t> ids(lookup.num_changes(t));
    std::vector<float> sums(ids.size() * kDim);
    lookup.copy_changes(t, std::as_writable_bytes(std::span(ids)).data(),
                        std::as_writable_bytes(std::span(sums)).data());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Row row = row_of(*tables[t], ids[i]);
      tables[t]->optimizer().update(row.weights(tables[t]->layout()),
                                    row.state(tables[t]->layout()),
                                    std::span(sums).subspan(i * kDim, kDim), kLr);
    }
  }
  return vectors;
}

}  // namespace

TEST(rows_from_afar_are_pooled_and_moved_as_rows_at_hand) {
  Random random(31);
  auto near = two_tables();
  auto far = two_tables();
  BatchLookup at_hand(near, four_features());
  BatchLookup from_afar(two_tables(), four_features());
  for (const std::size_t num_samples : {1, 40, 0, 2000, 7}) {
    const Lists lists = random_lists(random, 3, num_samples, 300, 4);
    const std::vector<float> labels(num_samples, 1.0f);
    const LookupContext context{.purpose = Purpose::kTrain, .now = 5, .labels = labels};
    at_hand.find(lists.view(), context);
    const auto grads = random_floats(random, num_samples * at_hand.width());
    const auto expected = pooled(at_hand, num_samples);
    CHECK(step_from_afar(from_afar, far, lists, context, grads) == expected);
    at_hand.apply(grads, kLr);
    for (std::size_t t = 0; t < near.size(); ++t) {
      CHECK(near[t]->size() == far[t]->size());
      for (std::uint64_t id = 0; id < 300; ++id) {
        const std::uint64_t kept = near[t]->row_id(id);
        const Row mine = row_of(*near[t], kept);
        const Row other = row_of(*far[t], kept);
        CHECK(static_cast<bool>(mine) == static_cast<bool>(other));
        if (!mine) continue;
        CHECK(std::ranges::equal(mine.weights(near[t]->layout()), other.weights(far[t]->layout())));
        CHECK(mine.header().show == other.header().show);
        CHECK(mine.header().click == other.header().click);
      }
    }
  }
}

TEST(a_lookup_asks_for_its_steps_in_order) {
  BatchLookup lookup(two_tables(), four_features());
  CHECK_THROWS(std::logic_error, lookup.num_listed(0));
  CHECK_THROWS(std::logic_error, lookup.set_rows({}));
  Lists lists;
  lists.num_samples = 1;
  for (int column = 0; column < 3; ++column) lists.add({7});
  lookup.list(lists.view(), {.purpose = Purpose::kTrain});
  std::vector<float> vectors(lookup.width());
  CHECK_THROWS(std::logic_error, lookup.pool(vectors));
  CHECK_THROWS(std::invalid_argument, lookup.set_rows({}));
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  CHECK_THROWS(std::logic_error, lookup.sum({}));
}

TEST(rows_that_are_missing_are_absent_or_as_new) {
  const auto table = make_table({.dim = kDim});
  const Read absent = read(*table, {4}, Missing::kAbsent);
  CHECK(absent.is_there[0] == 0);
  CHECK(std::ranges::all_of(absent.weights, [](float weight) { return weight == 0.0f; }));
  const Read as_new = read(*table, {4});
  CHECK(as_new.is_there[0] == 1);
  CHECK(table->size() == 0);
  const std::vector<std::int64_t> ids{4};
  const std::vector<std::uint32_t> once{1};
  count_impressions(*table, {ids, once, once, 0});
  CHECK(read(*table, {4}, Missing::kAbsent).weights == as_new.weights);
}

TEST(rows_are_written_as_they_are_given) {
  const auto table = make_table({.dim = kDim});
  const std::vector<std::int64_t> ids{4, 9};
  const std::vector<float> weights{1, 2, 3, 4, 5, 6};
  write_rows(*table, ids, weights);
  write_rows(*table, ids, weights);
  CHECK(table->size() == 2);
  CHECK(read(*table, ids, Missing::kAbsent).weights == weights);
}

TEST(rows_are_removed_without_a_trace) {
  for (const auto& table : two_tables()) {
    const std::vector<std::int64_t> ids{4, 9, 11};
    write_rows(*table, ids, std::vector<float>(ids.size() * kDim, 1.0f));
    CHECK(remove_rows(*table, std::vector<std::int64_t>{9, 9, 12, -1}) == 1);
    CHECK(table->size() == 2);
    CHECK((read(*table, ids, Missing::kAbsent).is_there == std::vector<std::uint8_t>{1, 0, 1}));
    for (const Bucket& bucket : table->buckets()) CHECK(bucket.tombstones.empty());
    write_rows(*table, std::vector<std::int64_t>{9}, std::vector<float>{7, 8, 9});
    const Read again = read(*table, {9}, Missing::kAbsent);
    CHECK((again.weights == std::vector<float>{7, 8, 9}));
  }
}

TEST(ids_of_other_processes_are_refused) {
  TableOptions options;
  options.dim = kDim;
  options.last_bucket = 512;
  Table table(std::move(options), GuardedOptimizer("sgd", {}, {}));
  std::size_t num_held = 0;
  for (std::int64_t id = 0; id < 200; ++id) {
    const bool is_held = table.place(static_cast<std::uint64_t>(id)).bucket < 512;
    num_held += is_held ? 1 : 0;
    if (is_held) {
      check_held(table, std::vector{id});
    } else {
      CHECK_THROWS(std::invalid_argument, check_held(table, std::vector{id}));
    }
  }
  CHECK(num_held > 50 && num_held < 150);
}

}  // namespace fleetrec::testing
