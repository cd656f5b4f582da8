// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/batch_lookup.h"

#include <cmath>
#include <stdexcept>

#include "check.h"
#include "making.h"
#include "naive_lookup.h"

namespace fleetrec::testing {
namespace {

constexpr std::size_t kDim = 3;
constexpr float kLr = 0.1f;

std::vector<std::shared_ptr<Table>> three_tables() {
  return {make_table({.dim = kDim, .optimizer = "adam"}),
          make_table({.dim = kDim, .num_rows = 200, .salt = 8}),
          make_table({.dim = kDim, .optimizer = "rowwise_adagrad", .salt = 9})};
}

// Columns out of order, one unused, a table shared by three features, every combiner.
std::vector<LookupFeature> five_features() {
  return {{.column = 4, .table = 0, .combiner = Combiner::kSum},
          {.column = 0, .table = 1, .combiner = Combiner::kMean},
          {.column = 1, .table = 0, .combiner = Combiner::kSqrtN},
          {.column = 5, .table = 2, .combiner = Combiner::kMean},
          {.column = 2, .table = 0, .combiner = Combiner::kSum}};
}

constexpr std::size_t kNumColumns = 6;

std::vector<LookupFeature> one_feature() {
  return {{.column = 0, .table = 0, .combiner = Combiner::kSum}};
}

void train_both(BatchLookup& lookup, NaiveLookup& naive, const Lists& lists, Random& random) {
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  naive.create(lists.view());
  CHECK(pooled(lookup, lists.num_samples) == naive.pool(lists.view()));
  const auto grads = random_floats(random, lists.num_samples * lookup.width());
  lookup.apply(grads, kLr);
  naive.apply(lists.view(), {.pooled = PooledGrad{grads, lookup.width()}}, kLr);
}

}  // namespace

TEST(a_lookup_does_as_its_slow_twin_does) {
  Random random(11);
  const auto tables = three_tables();
  BatchLookup lookup(tables, five_features(), {2});
  NaiveLookup naive(tables, five_features(), {2});
  for (const std::size_t num_samples : {1, 40, 0, 3000, 7}) {
    const Lists lists = random_lists(random, kNumColumns, num_samples, 200, 4);
    train_both(lookup, naive, lists, random);
    const Lists other = random_lists(random, kNumColumns, 20, 200, 4);
    lookup.find(other.view(), {.purpose = Purpose::kRead});
    CHECK(pooled(lookup, 20) == naive.pool(other.view()));
  }
}

TEST(sums_alone_do_as_their_slow_twin_does) {
  Random random(12);
  const auto tables = three_tables();
  auto features = five_features();
  for (LookupFeature& feature : features) feature.combiner = Combiner::kSum;
  BatchLookup lookup(tables, features);
  NaiveLookup naive(tables, features, {});
  for (int step = 0; step < 4; ++step) {
    train_both(lookup, naive, random_lists(random, kNumColumns, 100, 200, 3), random);
  }
}

TEST(empty_lists_are_zeros_and_change_nothing) {
  const auto table = make_table({.dim = kDim});
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 2;
  lists.add({});
  lists.add({});
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  CHECK(pooled(lookup, 2) == std::vector<float>(2 * kDim, 0.0f));
  lookup.apply(std::vector<float>(2 * kDim, 1.0f), kLr);
  CHECK(table->size() == 0);
}

TEST(an_id_that_occurs_often_is_updated_once_by_the_sum) {
  const auto table = make_table({.dim = 1, .optimizer = "sgd"});
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 2;
  lists.add({5, 5});
  lists.add({5});
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  const float before = row_of(*table, 5).weights()[0];
  CHECK(row_of(*table, 5).header().show == 3.0f);
  lookup.apply(std::vector<float>{1.0f, 10.0f}, 0.5f);
  CHECK(row_of(*table, 5).weights()[0] == before - 6.0f);
}

TEST(reading_and_updating_create_no_rows) {
  const auto table = make_table({.dim = kDim});
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 1;
  lists.add({5});
  for (const Purpose purpose : {Purpose::kRead, Purpose::kUpdate}) {
    lookup.find(lists.view(), {.purpose = purpose});
    CHECK(pooled(lookup, 1) == std::vector<float>(kDim, 0.0f));
    lookup.apply(std::vector<float>(kDim, 1.0f), kLr);
    CHECK(table->size() == 0);
  }
}

TEST(a_reading_lookup_applies_no_gradient) {
  const auto table = make_table({.dim = kDim});
  const Row row = table->create(5, table->place(5));
  const std::vector<float> before(row.weights(), row.weights() + kDim);
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 1;
  lists.add({5});
  lookup.find(lists.view(), {.purpose = Purpose::kRead});
  lookup.apply(std::vector<float>(kDim, 1.0f), kLr);
  CHECK(pooled(lookup, 1) == before && row.header().show == 0.0f);
}

TEST(labels_count_clicks_by_sample) {
  const auto table = make_table({.dim = kDim});
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 3;
  lists.add({1});
  lists.add({1, 2});
  lists.add({2});
  const std::vector<float> labels{1.0f, 1.0f, 0.0f};
  lookup.find(lists.view(), {.purpose = Purpose::kTrain, .now = 50, .labels = labels});
  CHECK(row_of(*table, 1).header().click == 2.0f && row_of(*table, 2).header().click == 1.0f);
  CHECK(row_of(*table, 2).header().last_seen == 50);
}

TEST(an_id_out_of_range_leaves_the_tables_unchanged) {
  const auto table = make_table({.dim = kDim, .num_rows = 10});
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 3;
  lists.add({1});
  lists.add({2, 10});
  lists.add({3});
  CHECK_THROWS(IdOutOfRange, lookup.find(lists.view(), {.purpose = Purpose::kTrain}));
  lists.ids[2] = -1;
  CHECK_THROWS(IdOutOfRange, lookup.find(lists.view(), {.purpose = Purpose::kRead}));
  CHECK(table->size() == 0 && table->counts().created == 0);
}

TEST(the_first_id_of_the_batch_that_is_out_of_range_is_reported) {
  constexpr std::size_t kNumSamples = 5000;  // several stretches
  const auto small = make_table({.dim = kDim, .num_rows = 10});
  const auto large = make_table({.dim = kDim, .num_rows = 100'000, .salt = 8});
  // The second column comes first, and the first column twice.
  BatchLookup lookup({small, large}, {{.column = 1, .table = 0, .combiner = Combiner::kSum},
                                      {.column = 0, .table = 1, .combiner = Combiner::kSum},
                                      {.column = 0, .table = 0, .combiner = Combiner::kSum}});
  Lists lists;
  lists.num_samples = kNumSamples;
  for (std::size_t k = 0; k < 2 * kNumSamples; ++k) lists.add({1});
  for (const std::size_t bad : {100, 2500, 4000, 5001, 9999}) {
    lists.ids[bad] = 1000 + static_cast<std::int64_t>(bad);
  }
  for (const int num_threads : {1, 2, 8, 8, 8}) {
    use_threads(num_threads);
    try {
      lookup.find(lists.view(), {.purpose = Purpose::kTrain});
      CHECK(false);
    } catch (const IdOutOfRange& fault) {
      CHECK(fault.feature == 2 && fault.id == 1100);
    }
  }
  use_threads(2);
}

TEST(frozen_tables_are_neither_counted_nor_changed) {
  const auto table = make_table({.dim = kDim});
  const auto other = make_table({.dim = kDim, .salt = 8});
  const Row row = table->create(5, table->place(5));
  const std::vector<float> before(row.weights(), row.weights() + kDim);
  BatchLookup lookup({table, other},
                     {{.column = 0, .table = 0, .combiner = Combiner::kSum},
                      {.column = 0, .table = 1, .combiner = Combiner::kSum}},
                     {0});
  Lists lists;
  lists.num_samples = 1;
  lists.add({5, 6});
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  CHECK(lookup.num_impressions(0) == 0 && lookup.num_impressions(1) == 2);
  lookup.apply(std::vector<float>(2 * kDim, 1.0f), kLr);
  CHECK(table->size() == 1 && other->size() == 2);
  CHECK(row.header().show == 0.0f && row.weights()[0] == before[0]);
}

TEST(ids_beyond_a_folding_range_share_rows) {
  const auto table = make_table({.dim = kDim, .num_rows = 10, .folds_ids = true});
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 3;
  lists.add({3});
  lists.add({10});
  lists.add({-1});
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  const auto vectors = pooled(lookup, 3);
  CHECK(row_of(*table, 3).weights()[0] == vectors[0]);
  CHECK(row_of(*table, fold_id(10, 10)).weights()[0] == vectors[kDim]);
  CHECK(row_of(*table, fold_id(~std::uint64_t{0}, 10)).weights()[0] == vectors[2 * kDim]);
  CHECK_THROWS(std::invalid_argument, make_table({.folds_ids = true}));
}

TEST(batches_that_do_not_fit_are_refused) {
  const auto table = make_table({.dim = kDim});
  BatchLookup lookup({table}, one_feature());
  const std::vector<std::int64_t> ids{1, 2, 3};
  const auto find = [&](std::vector<std::int64_t> offsets, std::size_t num_samples) {
    lookup.find({ids, offsets, num_samples}, {.purpose = Purpose::kTrain});
  };
  CHECK_THROWS(std::invalid_argument, find({0, 2, 1}, 2));
  CHECK_THROWS(std::invalid_argument, find({0, 2, 4}, 2));
  CHECK_THROWS(std::invalid_argument, find({-1, 2, 3}, 2));
  CHECK_THROWS(std::invalid_argument, find({0, 3}, 2));
  CHECK_THROWS(std::invalid_argument, find({}, 0));
  const std::vector<std::int64_t> offsets{0, 1, 2};
  const std::vector<float> labels{1.0f};
  CHECK_THROWS(std::invalid_argument, lookup.find({ids, offsets, 2}, {.labels = labels}));
  const std::vector<float> two_weights{1.0f, 1.0f};
  CHECK_THROWS(std::invalid_argument, lookup.find({ids, offsets, 2, two_weights}, {}));
  const std::vector<float> bad_weights{1.0f, std::nanf(""), 1.0f};
  CHECK_THROWS(std::invalid_argument, lookup.find({ids, offsets, 2, bad_weights}, {}));
  CHECK(table->size() == 0);
  lookup.find({ids, offsets, 2}, {});
  std::vector<float> vectors(kDim);
  CHECK_THROWS(std::invalid_argument, lookup.pool(vectors));
  CHECK_THROWS(std::invalid_argument, lookup.apply(vectors, kLr));
}

TEST(lookups_that_cannot_be_are_refused) {
  const auto narrow = make_table({.dim = 1});
  CHECK_THROWS(std::invalid_argument, BatchLookup({}, {}));
  CHECK_THROWS(std::invalid_argument, BatchLookup({narrow, narrow}, {}));
  CHECK_THROWS(std::invalid_argument, BatchLookup({narrow, make_table({.dim = 2})}, one_feature()));
  CHECK_THROWS(std::invalid_argument,
               BatchLookup({narrow}, {{.column = 0, .table = 1, .combiner = {}}}));
  const auto limited = [&](Combiner combiner, std::size_t max_length) {
    BatchLookup({narrow}, {{0, 0, combiner, max_length}});
  };
  CHECK_THROWS(std::invalid_argument, limited(Combiner::kNone, 0));
  CHECK_THROWS(std::invalid_argument, limited(Combiner::kSum, 3));
}

TEST(rows_that_are_gone_are_neither_read_nor_changed) {
  const auto table = make_table({.dim = kDim});
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 1;
  lists.add({5});
  std::vector<float> vectors(kDim, 1.0f);
  const auto remove_and_use = [&](const auto& remove) {
    lookup.find(lists.view(), {.purpose = Purpose::kTrain});
    lookup.pool(vectors);
    remove();
    CHECK_THROWS(std::logic_error, lookup.pool(vectors));
    CHECK_THROWS(std::logic_error, lookup.apply(vectors, kLr));
  };
  remove_and_use([&] { table->evict(5, table->place(5)); });
  remove_and_use([&] { table->clear(); });
}

TEST(one_column_may_go_through_two_tables) {
  Random random(13);
  const auto tables = three_tables();
  const std::vector<LookupFeature> features{
      {.column = 1, .table = 0, .combiner = Combiner::kSum},
      {.column = 1, .table = 2, .combiner = Combiner::kMean},
      {.column = 0, .table = 1, .combiner = Combiner::kSum},
      {.column = 1, .table = 0, .combiner = Combiner::kSqrtN}};
  BatchLookup lookup(tables, features);
  NaiveLookup naive(tables, features, {});
  for (int step = 0; step < 3; ++step) {
    train_both(lookup, naive, random_lists(random, 2, 60, 200, 3), random);
  }
}

TEST(a_find_that_failed_changes_no_table_and_must_be_made_good) {
  const auto table = make_table({.dim = kDim, .optimizer = "sgd", .num_rows = 10});
  BatchLookup lookup({table}, one_feature());
  Lists lists;
  lists.num_samples = 2;
  lists.add({1});
  lists.add({2});
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  const auto before = pooled(lookup, 2);
  Lists wrong;
  wrong.num_samples = 2;
  wrong.add({3});
  wrong.add({10});
  CHECK_THROWS(IdOutOfRange, lookup.find(wrong.view(), {.purpose = Purpose::kTrain}));
  CHECK(table->size() == 2 && row_of(*table, 1).header().show == 1.0f);
  std::vector<float> vectors(2 * kDim);
  CHECK_THROWS(std::logic_error, lookup.pool(vectors));
  CHECK_THROWS(std::logic_error, lookup.apply(vectors, kLr));
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  CHECK(pooled(lookup, 2) == before);
  lookup.apply(std::vector<float>(2 * kDim, 1.0f), kLr);
  CHECK(row_of(*table, 2).weights()[0] == before[kDim] - kLr);
}

TEST(sizes_that_wrap_around_are_refused) {
  const auto table = make_table({.dim = kDim});
  const std::vector<std::int64_t> offsets{0, 0};
  constexpr std::size_t kHuge = std::size_t{1} << 63;
  const LookupFeature second{.column = 1, .table = 0, .combiner = Combiner::kSum};
  BatchLookup two({table}, {second, second});
  CHECK_THROWS(std::invalid_argument, two.find({{}, offsets, kHuge}, {}));
  BatchLookup far({table}, {{.column = ~std::size_t{0}, .table = 0, .combiner = Combiner::kSum}});
  CHECK_THROWS(std::invalid_argument, far.find({{}, offsets, 1}, {}));
}

}  // namespace fleetrec::testing
