// SPDX-License-Identifier: Apache-2.0
// Sequences and weights of ids, alone and beside pooled features.
#include <algorithm>
#include <stdexcept>

#include "check.h"
#include "fleetrec/table/rows.h"
#include "making.h"
#include "naive_lookup.h"

namespace fleetrec::testing {
namespace {

// What the last apply did to the first table.
TableChanges changes_of(const BatchLookup& lookup) {
  TableChanges changes;
  changes.ids.resize(lookup.num_changes(0));
  changes.grads.resize(changes.ids.size() * lookup.dim());
  lookup.copy_changes(0, std::as_writable_bytes(std::span(changes.ids)).data(),
                      std::as_writable_bytes(std::span(changes.grads)).data());
  return changes;
}

constexpr std::size_t kDim = 3;
constexpr float kLr = 0.1f;
constexpr std::size_t kNumColumns = 4;

using Tables = std::vector<std::shared_ptr<Table>>;

Tables two_tables() {
  return {make_table({.dim = kDim, .optimizer = "adam"}),
          make_table({.dim = kDim, .num_rows = 50, .salt = 8, .folds_ids = true})};
}

// Every combiner; a column that is pooled and a sequence, one that is two sequences; one limited.
std::vector<LookupFeature> mixed_features() {
  return {{.column = 2, .table = 0, .combiner = Combiner::kNone},
          {.column = 0, .table = 0, .combiner = Combiner::kSum},
          {.column = 1, .table = 1, .combiner = Combiner::kMean},
          {.column = 2, .table = 1, .combiner = Combiner::kNone, .max_length = 2},
          {.column = 2, .table = 0, .combiner = Combiner::kSqrtN}};
}

std::vector<LookupFeature> one_sequence(std::size_t max_length = LookupFeature::kAnyLength) {
  return {{.column = 0, .table = 0, .combiner = Combiner::kNone, .max_length = max_length}};
}

Lists random_weighted(Random& random, std::size_t num_samples) {
  Lists lists = random_lists(random, kNumColumns, num_samples, 200, 4);
  lists.weights = random_floats(random, lists.ids.size());
  return lists;
}

std::size_t longest(const BatchLookup& lookup, std::size_t sequence) {
  const auto lengths = lookup.lengths(sequence);
  return lengths.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(lengths));
}

std::vector<float> padded(const BatchLookup& lookup, std::size_t sequence, std::size_t length) {
  std::vector<float> vectors(lookup.num_samples() * length * lookup.dim(), 9.0f);
  lookup.pad(sequence, vectors, length);
  return vectors;
}

// The vectors of a padded sequence that belong to ids, back to back.
std::vector<float> without_padding(const BatchLookup& lookup, std::size_t sequence,
                                   std::span<const float> padding, std::size_t length) {
  std::vector<float> vectors;
  const auto lengths = lookup.lengths(sequence);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    const auto list = padding.subspan(sample * length * lookup.dim(),
                                      static_cast<std::size_t>(lengths[sample]) * lookup.dim());
    vectors.insert(vectors.end(), list.begin(), list.end());
  }
  return vectors;
}

// Random gradients of every part, some of them absent, in memory of their own.
struct RandomGradients {
  RandomGradients(Random& random, const BatchLookup& lookup) : stride(lookup.width() + 5) {
    pooled = random_floats(random, lookup.num_samples() * stride);
    has_pooled = random() % 4 != 0;
    for (std::size_t i = 0; i < lookup.num_sequences(); ++i) {
      lengths.push_back(longest(lookup, i) + random() % 2);
      has_sequence.push_back(random() % 4 != 0);
      padded.push_back(random_floats(random, lookup.num_samples() * lengths[i] * lookup.dim()));
      back_to_back.push_back(without_padding(lookup, i, padded[i], lengths[i]));
    }
  }

  Gradients view(const BatchLookup& lookup, bool is_padded) const {
    Gradients gradients;
    const std::size_t size =
        lookup.num_samples() == 0 ? 0 : (lookup.num_samples() - 1) * stride + lookup.width();
    if (has_pooled) gradients.pooled = PooledGrad{std::span(pooled).first(size), stride};
    for (std::size_t i = 0; i < padded.size(); ++i) {
      gradients.sequences.push_back(std::nullopt);
      if (!has_sequence[i]) continue;
      gradients.sequences[i] =
          is_padded ? SequenceGrad{padded[i], lengths[i]} : SequenceGrad{back_to_back[i]};
    }
    return gradients;
  }

  std::size_t stride;
  bool has_pooled;
  std::vector<float> pooled;
  std::vector<std::size_t> lengths;
  std::vector<bool> has_sequence;
  std::vector<std::vector<float>> padded;
  std::vector<std::vector<float>> back_to_back;
};

void check_vectors(const BatchLookup& lookup, const NaiveLookup& naive, const JaggedIds& batch) {
  CHECK(pooled(lookup, batch.num_samples) == naive.pool(batch));
  for (std::size_t i = 0; i < lookup.num_sequences(); ++i) {
    const std::size_t length = longest(lookup, i) + 1;
    const auto vectors = padded(lookup, i, length);
    CHECK(vectors == naive.pad(batch, i, length));
    const auto expected = without_padding(lookup, i, vectors, length);
    std::vector<float> gathered(expected.size());
    lookup.gather(i, gathered);
    CHECK(gathered == expected);
  }
}

std::vector<float> all_weights(const Tables& tables) {
  std::vector<float> all;
  for (const auto& table : tables) {
    for (const Row& row : sorted_rows(*table)) {
      const auto weights = row.weights(table->layout());
      all.insert(all.end(), weights.begin(), weights.end());
      all.push_back(row.header().show);
    }
  }
  return all;
}

std::vector<float> train_mixed(int num_threads) {
  use_threads(num_threads);
  const Tables tables = two_tables();
  BatchLookup lookup(tables, mixed_features());
  Random random(44);
  std::vector<float> left;
  for (int step = 0; step < 3; ++step) {
    const Lists lists = random_weighted(random, 2500);
    lookup.find(lists.view(), {.purpose = Purpose::kTrain});
    const auto vectors = padded(lookup, 0, longest(lookup, 0));
    left.insert(left.end(), vectors.begin(), vectors.end());
    lookup.apply(RandomGradients(random, lookup).view(lookup, step % 2 == 0), kLr);
  }
  const auto weights = all_weights(tables);
  left.insert(left.end(), weights.begin(), weights.end());
  use_threads(2);
  return left;
}

}  // namespace

TEST(sequences_and_weights_do_as_their_slow_twin_does) {
  Random random(41);
  const Tables tables = two_tables();
  BatchLookup lookup(tables, mixed_features());
  NaiveLookup naive(tables, mixed_features(), {});
  for (const std::size_t num_samples : {1, 40, 0, 1500, 7, 30, 30, 30}) {
    Lists lists = random_weighted(random, num_samples);
    if (random() % 2 == 0) lists.weights.clear();
    lookup.find(lists.view(), {.purpose = Purpose::kTrain});
    naive.create(lists.view());
    check_vectors(lookup, naive, lists.view());
    const RandomGradients gradients(random, lookup);
    lookup.apply(gradients.view(lookup, random() % 2 == 0), kLr);
    naive.apply(lists.view(), gradients.view(lookup, true), kLr);
    lookup.find(lists.view(), {.purpose = Purpose::kRead});
    check_vectors(lookup, naive, lists.view());
  }
}

TEST(weighted_sums_alone_do_as_their_slow_twin_does) {
  Random random(42);
  const Tables tables = two_tables();
  const std::vector<LookupFeature> features{{.column = 0, .table = 0, .combiner = Combiner::kSum},
                                            {.column = 1, .table = 1, .combiner = Combiner::kSum}};
  BatchLookup lookup(tables, features);
  NaiveLookup naive(tables, features, {});
  for (int step = 0; step < 4; ++step) {
    Lists lists = random_weighted(random, 50);
    if (step % 2 == 1) lists.weights.clear();  // plain, with rows apart
    lookup.find(lists.view(), {.purpose = Purpose::kTrain});
    naive.create(lists.view());
    check_vectors(lookup, naive, lists.view());
    const RandomGradients gradients(random, lookup);
    lookup.apply(gradients.view(lookup, true), kLr);
    naive.apply(lists.view(), gradients.view(lookup, true), kLr);
  }
}

TEST(sequences_do_not_depend_on_the_number_of_threads) {
  const auto one = train_mixed(1);
  CHECK(train_mixed(2) == one);
  CHECK(train_mixed(8) == one);
}

TEST(a_row_that_is_pooled_and_in_a_sequence_moves_once_by_the_sum) {
  const auto table = make_table({.dim = 1, .optimizer = "adam"});
  const auto twin = make_table({.dim = 1, .optimizer = "adam"});
  BatchLookup both({table}, {{.column = 0, .table = 0, .combiner = Combiner::kSum},
                             {.column = 0, .table = 0, .combiner = Combiner::kNone}});
  BatchLookup once({twin}, {{.column = 0, .table = 0, .combiner = Combiner::kSum}});
  Lists lists;
  lists.num_samples = 1;
  lists.add({5});
  both.find(lists.view(), {.purpose = Purpose::kTrain});
  once.find(lists.view(), {.purpose = Purpose::kTrain});
  const std::vector<float> pooled{1.0f}, sequence{2.0f};
  both.apply({.pooled = PooledGrad{pooled, 1}, .sequences = {SequenceGrad{sequence, 1}}}, kLr,
             Changes::kKeep);
  once.apply(std::vector<float>{3.0f}, kLr);
  CHECK(changes_of(both).ids == std::vector<std::uint64_t>{5});
  CHECK(changes_of(both).grads == std::vector<float>{3.0f});
  CHECK(row_of(*table, 5).weights()[0] == row_of(*twin, 5).weights()[0]);
}

TEST(ids_that_are_cut_off_are_neither_looked_up_nor_counted) {
  const auto table = make_table({.dim = kDim, .num_rows = 10});
  BatchLookup lookup({table}, one_sequence(2));
  Lists lists;
  lists.num_samples = 2;
  lists.add({99, 1, 2, 3});  // 99 is out of range, and past the end
  lists.add({4});
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  CHECK(lookup.lengths(0) == std::vector<std::int64_t>{2, 1});
  CHECK(table->size() == 3 && !row_of(*table, 1) && lookup.num_impressions(0) == 3);
  const auto vectors = padded(lookup, 0, 2);
  CHECK(vectors[0] == row_of(*table, 2).weights()[0]);
  CHECK(vectors[kDim] == row_of(*table, 3).weights()[0]);
  CHECK(vectors[2 * kDim] == row_of(*table, 4).weights()[0] && vectors[3 * kDim] == 0.0f);
}

TEST(what_has_no_gradient_does_not_move) {
  const auto table = make_table({.dim = 1, .optimizer = "adamw"});  // decays without a gradient
  BatchLookup lookup({table}, {{.column = 0, .table = 0, .combiner = Combiner::kSum},
                               {.column = 1, .table = 0, .combiner = Combiner::kNone}});
  Lists lists;
  lists.num_samples = 1;
  lists.add({1});
  lists.add({2});
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  const std::vector<float> before{row_of(*table, 1).weights()[0], row_of(*table, 2).weights()[0]};
  lookup.apply(Gradients{}, kLr, Changes::kKeep);
  CHECK(changes_of(lookup).ids.empty());
  lookup.apply(Gradients{.sequences = {std::nullopt}}, kLr);
  CHECK(row_of(*table, 1).weights()[0] == before[0]);
  const std::vector<float> zero{0.0f};
  lookup.apply(Gradients{.sequences = {SequenceGrad{zero}}}, kLr, Changes::kKeep);
  CHECK(row_of(*table, 1).weights()[0] == before[0]);
  CHECK(row_of(*table, 2).weights()[0] != before[1]);
  CHECK(changes_of(lookup).ids == std::vector<std::uint64_t>{2});
}

TEST(weights_that_add_up_to_nothing_give_zeros) {
  const auto table = make_table({.dim = 1});
  BatchLookup lookup({table}, {{.column = 0, .table = 0, .combiner = Combiner::kMean},
                               {.column = 0, .table = 0, .combiner = Combiner::kSqrtN}});
  Lists lists;
  lists.num_samples = 2;
  lists.add({1, 2});
  lists.add({3});
  lists.weights = {1.0f, -1.0f, 0.0f};
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  const auto vectors = pooled(lookup, 2);
  CHECK(vectors[0] == 0.0f && vectors[2] == 0.0f && vectors[3] == 0.0f);
  CHECK(vectors[1] != 0.0f);  // the sum of squares is two
}

TEST(sequences_that_do_not_fit_are_refused) {
  const auto table = make_table({.dim = kDim});
  BatchLookup lookup({table}, one_sequence());
  Lists lists;
  lists.num_samples = 2;
  lists.add({1, 2});
  lists.add({3});
  lookup.find(lists.view(), {.purpose = Purpose::kTrain});
  std::vector<float> vectors(2 * 2 * kDim);
  CHECK_THROWS(std::invalid_argument, lookup.pad(1, vectors, 2));
  CHECK_THROWS(std::invalid_argument, lookup.pad(0, vectors, 3));
  CHECK_THROWS(std::invalid_argument, lookup.pad(0, std::span(vectors).first(2 * kDim), 1));
  CHECK_THROWS(std::invalid_argument, lookup.gather(0, vectors));
  CHECK_THROWS(std::invalid_argument, lookup.lengths(1));
  const auto apply = [&](std::size_t num_floats, std::optional<std::size_t> length) {
    const SequenceGrad grad{std::span<const float>(vectors).first(num_floats), length};
    lookup.apply(Gradients{.sequences = {grad}}, kLr);
  };
  CHECK_THROWS(std::invalid_argument, apply(2 * kDim, 1));
  CHECK_THROWS(std::invalid_argument, apply(2 * kDim, std::nullopt));
  CHECK_THROWS(std::invalid_argument, apply(3 * kDim, 2));
  CHECK_THROWS(std::invalid_argument,
               lookup.apply(Gradients{.sequences = {std::nullopt, std::nullopt}}, kLr));
  apply(3 * kDim, std::nullopt);
  apply(4 * kDim, 2);
}

}  // namespace fleetrec::testing
