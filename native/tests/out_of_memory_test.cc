// SPDX-License-Identifier: Apache-2.0
// Memory may run out anywhere in a find; what is left must not be mistaken for a batch.
#include <new>
#include <stdexcept>

#include "allocation.h"
#include "check.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

constexpr std::size_t kDim = 2;
constexpr std::size_t kNumSamples = 300;

std::vector<LookupFeature> features() {
  return {{.column = 0, .table = 0, .combiner = Combiner::kMean},
          {.column = 1, .table = 1, .combiner = Combiner::kNone}};
}

std::vector<std::shared_ptr<Table>> two_tables() {
  const Admission twice{.kind = AdmissionKind::kCount, .threshold = 2.0};
  return {make_table({.dim = kDim}), make_table({.dim = kDim, .admission = twice, .salt = 9})};
}

bool runs_out(BatchLookup& lookup, const JaggedIds& batch, long num_allocations) {
  num_allocations_left = num_allocations;
  try {
    lookup.find(batch, {.purpose = Purpose::kTrain});
    num_allocations_left = -1;
    return false;
  } catch (const std::bad_alloc&) {
    num_allocations_left = -1;
    return true;
  }
}

}  // namespace

TEST(a_lookup_that_ran_out_of_memory_answers_nothing_until_it_has_found) {
  use_threads(1);  // making threads needs memory too
  Random random(61);
  const Lists first = random_lists(random, 2, 10, 50, 2);
  const Lists second = random_lists(random, 2, kNumSamples, 3000, 3);
  bool was_unusable = false;
  for (long num_allocations = 0;; num_allocations += 1 + num_allocations / 8) {
    const auto tables = two_tables();
    BatchLookup lookup(tables, features());
    lookup.find(first.view(), {.purpose = Purpose::kTrain});
    const auto before = pooled(lookup, 10);
    const bool is_out = runs_out(lookup, second.view(), num_allocations);
    std::vector<float> vectors(kNumSamples * kDim);
    if (is_out && lookup.num_samples() == 10) {
      CHECK(pooled(lookup, 10) == before);  // nothing had been touched
    } else if (is_out) {
      was_unusable = true;
      CHECK_THROWS(std::logic_error, lookup.pool(vectors));
      CHECK_THROWS(std::logic_error, lookup.lengths(0));
      CHECK_THROWS(std::logic_error, lookup.num_impressions(0));
      CHECK_THROWS(std::logic_error, lookup.apply(vectors, 0.1f));
    }
    // Tables are whole: every row that is listed can be found, and the batch be learnt.
    for (const auto& table : tables) {
      for (std::uint32_t bucket = 0; bucket < kNumBuckets; ++bucket) {
        table->each_row(bucket,
                        [&](const Row& row) { CHECK(row_of(*table, row.header().id()) == row); });
      }
    }
    lookup.find(second.view(), {.purpose = Purpose::kTrain});
    lookup.pool(vectors);
    lookup.apply(vectors, 0.1f);
    if (!is_out) break;
  }
  CHECK(was_unusable);
  use_threads(2);
}

TEST(a_new_lookup_answers_nothing) {
  BatchLookup lookup(two_tables(), features());
  std::vector<float> none;
  CHECK_THROWS(std::logic_error, lookup.pool(none));
  CHECK_THROWS(std::logic_error, lookup.apply(none, 0.1f));
}

}  // namespace fleetrec::testing
