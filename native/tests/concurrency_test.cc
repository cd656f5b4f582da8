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

}  // namespace fleetrec::testing
