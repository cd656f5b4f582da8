// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/table.h"

#include <map>
#include <stdexcept>

#include "check.h"
#include "fleetrec/table/evict.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

Row create(Table& table, std::uint64_t id) { return table.create(id, table.place(id)); }
void evict(Table& table, std::uint64_t id) { table.evict(id, table.place(id)); }

Row count_impression(Table& table, std::uint64_t id, std::uint32_t now = 0, bool is_click = false) {
  const Place place = table.place(id);
  return table.count_impression({id, now, is_click}, table.find(id, place));
}

}  // namespace

TEST(a_table_of_no_width_or_no_rows_is_refused) {
  CHECK_THROWS(std::invalid_argument, make_table({.dim = 0}));
  CHECK_THROWS(std::invalid_argument, make_table({.num_rows = 0}));
  CHECK_THROWS(std::invalid_argument, make_table({.num_rows = ~std::uint64_t{0}}));
}

TEST(a_table_does_as_a_map_does_under_random_changes) {
  for (const std::optional<std::uint64_t> num_rows : {std::optional<std::uint64_t>(), {3000}}) {
    const auto table = make_table({.dim = 3, .num_rows = num_rows});
    Random random(5);
    std::map<std::uint64_t, float> model;  // the first weight of every row
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t id = random() % 3000 * (num_rows ? 1 : 0x123456789u);
      const Row row = row_of(*table, id);
      CHECK(static_cast<bool>(row) == model.contains(id));
      if (!row) {
        const Row created = create(*table, id);
        created.weights()[0] = model[id] = static_cast<float>(i);
      } else if (random() % 2 == 0) {
        evict(*table, id);
        model.erase(id);
      } else {
        CHECK(row.weights()[0] == model[id] && row.header().id() == id);
      }
    }
    CHECK(table->size() == model.size());
    CHECK(table->counts().created - table->counts().evicted == model.size());
    std::map<std::uint64_t, float> visited;
    for (std::uint32_t bucket = 0; bucket < kNumBuckets; ++bucket) {
      table->each_row(bucket, [&](const Row& row) {
        visited[row.header().id()] = row.weights()[0];
        CHECK(table->place(row.header().id()).bucket == bucket);
      });
    }
    CHECK(visited == model);
  }
}

TEST(an_evicted_id_comes_back_as_a_new_row_and_leaves_a_tombstone) {
  const auto table = make_table({.dim = 2});
  table->set_last_cut({.version = 1});
  const Row first = create(*table, 77);
  const std::vector<float> fresh(first.weights(), first.weights() + 2);
  first.weights()[0] = 9.0f;
  first.state(table->layout())[1] = 9.0f;
  first.header().show = 5.0f;
  evict(*table, 77);
  evict(*table, 77);  // there is none: nothing happens
  CHECK(!row_of(*table, 77) && table->size() == 0 && table->counts().evicted == 1);
  const Bucket& bucket = table->buckets()[table->place(77).bucket];
  CHECK(bucket.tombstones == std::vector<std::uint64_t>{77});
  const Row again = create(*table, 77);
  CHECK(again == first);  // the memory is used again
  CHECK(std::vector<float>(again.weights(), again.weights() + 2) == fresh);
  CHECK(again.state(table->layout())[1] == 0.0f && again.header().show == 0.0f);
}

TEST(tombstones_are_kept_only_where_a_delta_may_need_them) {
  const auto table = make_table();
  const auto num_tombstones = [&] {
    std::size_t count = 0;
    for (const Bucket& bucket : table->buckets()) count += bucket.tombstones.size();
    return count;
  };
  create(*table, 1);
  evict(*table, 1);
  CHECK(num_tombstones() == 0);  // the first snapshot is a base
  table->add_cut();
  create(*table, 2);
  evict(*table, 2);
  CHECK(num_tombstones() == 1);
  table->remove_cut();  // it was not committed
  CHECK(num_tombstones() == 0);
  table->add_cut();
  table->set_last_cut({.version = 1});
  table->remove_cut();
  create(*table, 3);
  evict(*table, 3);
  CHECK(num_tombstones() == 1);
}

TEST(seeing_an_id_counts_it) {
  const auto table = make_table();
  count_impression(*table, 5, 100, true);
  const Row row = count_impression(*table, 5, 50);
  const RowHeader& header = row.header();
  CHECK(header.show == 2.0f && header.click == 1.0f && header.last_seen == 100);
  CHECK(header.version == table->version());
  table->next_version();
  CHECK(row.header().version + 1 == table->version());
  count_impression(*table, 5);
  CHECK(row.header().version == table->version());
}

TEST(an_id_gets_its_row_with_its_counts_when_it_is_admitted) {
  const auto table = make_table({.admission = {.kind = AdmissionKind::kCount, .threshold = 3.0}});
  CHECK(!count_impression(*table, 5, 10, true) && !count_impression(*table, 5, 30) &&
        !row_of(*table, 5));
  CHECK(table->size() == 0 && table->num_candidates() == 1);
  const Row row = count_impression(*table, 5, 20, true);
  CHECK(row && table->num_candidates() == 0 && table->size() == 1);
  CHECK(row.header().show == 3.0f && row.header().click == 2.0f);
}

TEST(cleared_tables_are_empty_and_can_be_used_again) {
  const auto table = make_table();
  for (std::uint64_t id = 0; id < 5000; ++id) create(*table, id);
  const std::size_t num_bytes = table->num_bytes();
  table->clear();
  CHECK(table->size() == 0 && !row_of(*table, 5) && table->num_bytes() < num_bytes);
  CHECK(create(*table, 5) && table->size() == 1);
}

TEST(the_last_id_of_a_range_has_a_row_and_the_next_is_out_of_range) {
  const auto table = make_table({.num_rows = 1'000'003});
  CHECK(create(*table, 1'000'002) && row_of(*table, 1'000'002));
  CHECK(table->is_in_range(1'000'002) && !table->is_in_range(1'000'003));
  CHECK(!row_of(*table, 1'000'001) && table->size() == 1);
}

TEST(ids_of_a_range_are_admitted_by_their_counts) {
  const auto table = make_table(
      {.num_rows = 200'000, .admission = {.kind = AdmissionKind::kCount, .threshold = 3.0}});
  constexpr std::uint64_t kStep = 1024 * 3;  // one bucket, many candidates
  for (int impression = 1; impression <= 3; ++impression) {
    for (std::uint64_t id = 0; id < 200'000; id += kStep) {
      CHECK(static_cast<bool>(count_impression(*table, id)) == (impression == 3));
    }
  }
  CHECK(table->num_candidates() == 0 && table->size() == 66);
}

TEST(evicted_rows_are_counted_by_rule) {
  const auto table = make_table();
  for (std::uint64_t id = 0; id < 10; ++id)
    count_impression(*table, id, static_cast<std::uint32_t>(id));
  CHECK(evict_unseen(*table, 2).size() == 2);
  count_impression(*table, 5);
  CHECK(evict_low_scores(*table, {1.0, 0.15, 0.1, 1.0}).size() == 7);
  for (std::uint64_t id = 20; id < 24; ++id) count_impression(*table, id);
  CHECK(evict_beyond(*table, 2).size() == 3);
  evict(*table, 5);
  const TableCounts counts = table->counts();
  CHECK(counts.evicted_unseen == 2 && counts.evicted_score == 7 && counts.evicted_capacity == 3);
  CHECK(counts.evicted == 13 && counts.created == 14);
}

}  // namespace fleetrec::testing
