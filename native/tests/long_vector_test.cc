// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/long_vector.h"

#include <algorithm>
#include <array>

#include "check.h"
#include "fleetrec/table/served.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

constexpr std::size_t kDim = 4;
// Three impressions without a click, or one with and one without.
constexpr LongVector kRule{.threshold = 1.5, .show_weight = 0.5, .click_weight = 1.0};

Row count_impression(Table& table, std::uint64_t id, bool is_click = false) {
  return table.count_impression({id, 0, is_click}, row_of(table, id));
}

std::vector<float> weights_of(const Table& table, std::uint64_t id) {
  const auto weights = row_of(table, id).weights(table.layout());
  return {weights.begin(), weights.end()};
}

std::vector<float> new_weights(const Table& table, std::uint64_t id) {
  std::vector<float> weights(table.layout().dim);
  table.options().initializer.fill(id, weights);
  return weights;
}

void push(const std::shared_ptr<Table>& table, std::uint64_t id, float grad) {
  BatchLookup lookup({table}, {{.column = 0, .table = 0, .combiner = Combiner::kSum}});
  const std::array ids{static_cast<std::int64_t>(id)};
  const std::array<std::int64_t, 2> offsets{0, 1};
  lookup.find({ids, offsets, 1}, {.purpose = Purpose::kUpdate});
  lookup.apply(std::vector<float>(table->layout().dim, grad), 0.1f);
}

}  // namespace

TEST(a_row_has_its_first_weight_until_its_score_reaches_the_threshold) {
  const auto table = make_table({.dim = kDim, .long_vector = kRule});
  const std::vector<float> whole = new_weights(*table, 7);
  for (int i = 0; i < 2; ++i) {
    count_impression(*table, 7);
    CHECK(weights_of(*table, 7) == (std::vector<float>{whole[0], 0.0f, 0.0f, 0.0f}));
  }
  count_impression(*table, 7);
  CHECK(weights_of(*table, 7) == whole);
  count_impression(*table, 8, true);
  CHECK(LongVector::is_short(weights_of(*table, 8)));
  count_impression(*table, 8);
  CHECK(!LongVector::is_short(weights_of(*table, 8)));
}

TEST(gradients_of_a_short_row_change_its_first_weight_only) {
  for (const RowOptimizerInfo& info : row_optimizers()) {
    const auto table =
        make_table({.dim = kDim, .optimizer = std::string(info.name), .long_vector = kRule});
    count_impression(*table, 7);
    const float first = weights_of(*table, 7)[0];
    for (int i = 0; i < 3; ++i) {
      push(table, 7, 0.5f);
      CHECK(weights_of(*table, 7)[0] != first && LongVector::is_short(weights_of(*table, 7)));
    }
    const float trained = weights_of(*table, 7)[0];
    count_impression(*table, 7);
    count_impression(*table, 7);
    std::vector<float> whole = new_weights(*table, 7);
    whole[0] = trained;
    CHECK(weights_of(*table, 7) == whole);
    push(table, 7, 0.5f);
    CHECK(std::ranges::none_of(weights_of(*table, 7),
                               [&](float w) { return std::ranges::count(whole, w) > 0; }));
  }
}

TEST(a_row_that_is_whole_stays_so_when_its_score_decays) {
  const auto table = make_table({.dim = kDim, .long_vector = kRule});
  for (int i = 0; i < 3; ++i) count_impression(*table, 7);
  row_of(*table, 7).header().show = 1.0f;
  push(table, 7, 0.5f);
  const std::vector<float> trained = weights_of(*table, 7);
  CHECK(trained[1] != new_weights(*table, 7)[1]);
  count_impression(*table, 7);
  count_impression(*table, 7);  // reaches the threshold again
  CHECK(weights_of(*table, 7) == trained);
}

TEST(an_id_that_is_admitted_late_gets_its_long_vector_with_its_row) {
  const auto table = make_table({.dim = kDim,
                                 .admission = {.kind = AdmissionKind::kCount, .threshold = 5.0},
                                 .long_vector = kRule});
  for (int i = 0; i < 5; ++i) count_impression(*table, 7);
  CHECK(weights_of(*table, 7) == new_weights(*table, 7));
}

TEST(a_row_admitted_by_ctr_counts_from_its_creation) {
  const auto table = make_table(
      {.dim = kDim,
       .admission = {.kind = AdmissionKind::kCtr, .show_weight = 0.0, .click_weight = 1.0}});
  for (int i = 0; i < 3; ++i) CHECK(!count_impression(*table, 7));
  const Row row = count_impression(*table, 7, true);
  CHECK(row && row.header().show == 1.0f && row.header().click == 1.0f);
  CHECK(table->num_candidates() == 0);
}

TEST(a_row_that_is_read_as_new_is_short) {
  const auto table = make_table({.dim = kDim, .long_vector = kRule});
  const std::array<std::int64_t, 1> ids{7};
  std::vector<float> weights(kDim);
  std::array<std::uint8_t, 1> is_there{};
  read_rows(*table, ids, Missing::kAsNew, weights, is_there);
  CHECK(weights[0] == new_weights(*table, 7)[0] && LongVector::is_short(weights));
}

}  // namespace fleetrec::testing
