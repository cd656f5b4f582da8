// SPDX-License-Identifier: Apache-2.0
// Any number of threads inside a call, and several callers, over the same tables.
#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "check.h"
#include "fleetrec/table/rows.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

constexpr std::size_t kDim = 4;
constexpr std::size_t kNumSamples = 1500;
constexpr std::uint64_t kNumIds = 4000;

std::vector<LookupFeature> features() {
  return {{.column = 0, .table = 0, .combiner = Combiner::kSum},
          {.column = 1, .table = 1, .combiner = Combiner::kMean},
          {.column = 2, .table = 0, .combiner = Combiner::kSqrtN}};
}

// Everything that a short training leaves behind.
std::vector<float> train(int num_threads, std::size_t num_steps) {
  use_threads(num_threads);
  const Admission twice{.kind = AdmissionKind::kCount, .threshold = 2.0};
  const std::vector<std::shared_ptr<Table>> tables{
      make_table({.dim = kDim, .optimizer = "adam"}),
      make_table({.dim = kDim, .admission = twice, .salt = 9})};
  BatchLookup lookup(tables, features());
  Random random(21);
  std::vector<float> left;
  for (std::size_t step = 0; step < num_steps; ++step) {
    const Lists lists = random_lists(random, 3, kNumSamples, kNumIds, 3);
    lookup.find(lists.view(), {.purpose = Purpose::kTrain});
    const auto vectors = pooled(lookup, kNumSamples);
    left.insert(left.end(), vectors.begin(), vectors.end());
    lookup.apply(random_floats(random, vectors.size()), 0.05f);
  }
  for (const auto& table : tables) {
    for (const Row& row : sorted_rows(*table)) {
      const std::span weights = row.weights(table->layout());
      left.insert(left.end(), weights.begin(), weights.end());
      left.push_back(row.header().show);
    }
  }
  use_threads(2);
  return left;
}

}  // namespace

TEST(the_outcome_does_not_depend_on_the_number_of_threads) {
  const auto one = train(1, 4);
  CHECK(train(2, 4) == one);
  CHECK(train(8, 4) == one);
}

TEST(the_first_exception_of_a_parallel_loop_is_thrown_again) {
  std::array<int, 100> done{};
  CHECK_THROWS(std::out_of_range, parallel_for(done.size(), [&](std::size_t i) {
                 done[i] = 1;
                 if (i == 50) throw std::out_of_range("50");
               }));
  CHECK(std::ranges::count(done, 1) == 100);
  parallel_for(0, [](std::size_t) { CHECK(false); });
}

namespace {

// What one caller does with a table: look up, pool, apply, time and again.
void train_as_a_caller(const std::shared_ptr<Table>& table, std::uint64_t seed) {
  BatchLookup lookup({table}, {{.column = 0, .table = 0, .combiner = Combiner::kSum}});
  Random random(seed);
  for (int step = 0; step < 20; ++step) {
    const Lists lists = random_lists(random, 1, 300, 1000, 2);
    lookup.find(lists.view(), {.purpose = Purpose::kTrain});
    const auto vectors = pooled(lookup, 300);
    CHECK(std::ranges::all_of(vectors, [](float v) { return std::isfinite(v); }));
    lookup.apply(std::vector<float>(vectors.size(), 1.0f), 0.01f);
  }
}

}  // namespace

TEST(callers_may_share_a_table) {
  const auto shared = make_table({.dim = kDim, .optimizer = "sgd"});
  {
    const std::jthread first([&] { train_as_a_caller(shared, 31); });
    const std::jthread second([&] { train_as_a_caller(shared, 32); });
  }
  const auto alone = make_table({.dim = kDim, .optimizer = "sgd"});
  train_as_a_caller(alone, 31);
  train_as_a_caller(alone, 32);
  const auto rows = sorted_rows(*shared);
  const auto expected = sorted_rows(*alone);
  CHECK(rows.size() == expected.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].header().id() == expected[i].header().id());
    CHECK(rows[i].header().show == expected[i].header().show);
    // No update is lost; their order moves the last bits.
    CHECK(std::abs(rows[i].weights()[0] - expected[i].weights()[0]) < 1e-4f);
  }
}

}  // namespace fleetrec::testing
