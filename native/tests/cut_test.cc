// SPDX-License-Identifier: Apache-2.0
// A cut holds the table as it was, whatever happens to the table until the cut has been read.
#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <thread>

#include "allocation.h"
#include "check.h"
#include "damage.h"
#include "fleetrec/snapshot/cut_reader.h"
#include "fleetrec/snapshot/snapshot.h"
#include "fleetrec/table/evict.h"
#include "fleetrec/table/served.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

// The slow twin of a cut: a copy of everything that a table holds.
struct Copy {
  explicit Copy(const Table& table) : content(content_of(table)) {
    for (const Bucket& bucket : table.buckets()) {
      for (const std::uint64_t id : bucket.tombstones) {
        if (!row_of(table, id)) tombstones.push_back(id);
      }
    }
    std::ranges::sort(tombstones);
    tombstones.erase(std::ranges::unique(tombstones).begin(), tombstones.end());
  }

  Bytes content;
  std::vector<std::uint64_t> tombstones;
};

std::vector<std::int64_t> random_ids(Random& random, std::size_t count) {
  std::vector<std::int64_t> ids(count);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % 150);
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

// Does one of all the things that change a table.
void change(Table& table, BatchLookup& lookup, Random& random) {
  const auto now = static_cast<std::uint32_t>(random() % 100);
  switch (random() % 8) {
    case 0: {
      const std::lock_guard lock(table.mutex());
      for (const std::int64_t id : random_ids(random, 9)) {
        table.evict(static_cast<std::uint64_t>(id), table.place(static_cast<std::uint64_t>(id)));
      }
      return;
    }
    case 1:
      evict_unseen(table, now / 4);
      return;
    case 2:
      evict_low_scores(table,
                       {.decay = 0.5, .threshold = 0.3, .show_weight = 1, .click_weight = 1});
      return;
    case 3:
      evict_beyond(table, 60);
      return;
    case 4: {
      const auto ids = random_ids(random, 7);
      write_rows(table, ids, random_floats(random, ids.size() * table.layout().dim));
      return;
    }
    case 5: {
      const auto ids = random_ids(random, 7);
      const std::vector<std::uint32_t> counts(ids.size(), 1);
      count_impressions(table, {ids, counts, counts, now});
      return;
    }
    default:
      train(table, lookup, random, now);
  }
}

// What a reader finds, in the words of the twin.
struct Found {
  explicit Found(const Table& table) : rows(kNumBuckets, RowCopies(table.layout())) {}

  Bytes content(const RowLayout& layout) {
    std::map<std::uint64_t, Row> by_id;
    for (RowCopies& copies : rows) {
      for (std::size_t i = 0; i < copies.size(); ++i) {
        CHECK(by_id.emplace(copies.at(i).header().id(), copies.at(i)).second);
      }
    }
    ByteSink sink;
    for (const auto& [id, row] : by_id) {
      sink.put(id);
      sink.put(row.header().last_seen);
      sink.put(row.header().show);
      sink.put(row.header().click);
      sink.put_all(std::span<const float>(row.weights(layout)));
      sink.put_all(std::span<const float>(row.state(layout)));
    }
    sink.put(std::uint64_t{by_id.size()});
    std::ranges::sort(candidates, {}, &Candidate::id);
    for (const Candidate& candidate : candidates) sink.put(candidate);
    return Bytes(sink.bytes().begin(), sink.bytes().end());
  }

  std::vector<RowCopies> rows;  // by bucket
  std::vector<Candidate> candidates;
  std::vector<std::uint64_t> tombstones;
};

// Reads a part of a bucket: tombstones before rows, as files have them.
void read(CutReader& reader, std::size_t task, Found& found) {
  const auto bucket = static_cast<std::uint32_t>(task / 2);
  if (task % 2 == 1) {
    const auto its = reader.candidates(bucket);
    found.candidates.insert(found.candidates.end(), its.begin(), its.end());
    return;
  }
  const auto its = reader.tombstones(bucket);
  found.tombstones.insert(found.tombstones.end(), its.begin(), its.end());
  reader.read_rows(bucket, found.rows[bucket]);
}

std::shared_ptr<CutContent> cut_content(Table& table) {
  const std::lock_guard lock(table.mutex());
  auto content = std::make_shared<CutContent>(table.buckets(), table.layout(), table.version());
  table.next_version();
  table.set_cut_content(content);
  return content;
}

}  // namespace

TEST(a_cut_holds_what_a_copy_holds_whatever_happens_while_it_is_read) {
  Random random(81);
  for (int round = 0; round < 40; ++round) {
    const auto table = make_table(random_choice(random));
    BatchLookup lookup({table}, {{0, 0, Combiner::kSum}});
    for (int i = 0; i < 6; ++i) change(*table, lookup, random);
    Copy want(*table);
    const auto content = cut_content(*table);
    CutReader reader(*table, *content, 0);
    Found found(*table);
    std::vector<std::size_t> tasks(2 * kNumBuckets);
    std::iota(tasks.begin(), tasks.end(), std::size_t{0});
    std::ranges::shuffle(tasks, random);
    const std::size_t clear_at = random() % (3 * tasks.size());  // in a third of the rounds
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (random() % 40 == 0) change(*table, lookup, random);
      if (i == clear_at) {
        const std::lock_guard lock(table->mutex());
        table->clear();
      }
      read(reader, tasks[i], found);
    }
    CHECK(found.content(table->layout()) == want.content);
    std::ranges::sort(found.tombstones);
    CHECK(found.tombstones == want.tombstones);
  }
}

TEST(rows_of_one_bucket_may_change_between_two_stretches) {
  const std::size_t dim = 10000;  // a stretch is a few rows
  const auto table = make_table({.dim = dim, .optimizer = "sgd", .num_rows = 1 << 20});
  std::vector<std::int64_t> ids(30);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * kNumBuckets);
  write_rows(*table, ids, std::vector<float>(ids.size() * dim, 1.0f));
  const auto content = cut_content(*table);
  std::map<std::uint64_t, float> found;
  std::optional<CutContent::Position> next = CutContent::Position{};
  std::size_t num_stretches = 0;
  while (next) {
    {
      const std::lock_guard lock(table->mutex());
      next = content->each_row(0, *next, [&](Row row) {
        found.emplace(row.header().id(), row.weights()[0]);
        CHECK(row.weights()[dim - 1] == row.weights()[0]);
      });
    }
    write_rows(*table, std::span(ids).subspan(num_stretches, 3), std::vector<float>(3 * dim, 2.0f));
    const auto gone = static_cast<std::uint64_t>(ids[29 - num_stretches % 20]);
    const std::lock_guard lock(table->mutex());
    table->evict(gone, table->place(gone));
    ++num_stretches;
  }
  CHECK(num_stretches > 3);
  CHECK(found.size() == ids.size());
  CHECK(std::ranges::all_of(found, [](const auto& one) { return one.second == 1.0f; }));
}

TEST(a_snapshot_is_of_the_cut_while_threads_change_the_table) {
  const Admission twice{.kind = AdmissionKind::kCount, .threshold = 2.0};
  for (const auto& num_rows : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(150)}) {
    const TableChoice choice{.optimizer = "adam", .num_rows = num_rows, .admission = twice};
    const auto table = make_table(choice);
    BatchLookup lookup({table}, {{0, 0, Combiner::kSum}});
    Random random(82);
    std::vector<std::filesystem::path> chain;
    const TemporaryFolder folder;
    for (int i = 0; i < 6; ++i) {
      for (int k = 0; k < 4; ++k) change(*table, lookup, random);
      Bytes want = content_of(*table);
      Cut cut(*table);
      CHECK(cut.stats().num_rows == table->size());
      CHECK(cut.stats().num_candidates == table->num_candidates());
      std::atomic<bool> is_written = false;
      std::vector<std::jthread> trainers;
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        trainers.emplace_back([&, seed] {
          Random own(100 * seed);
          BatchLookup its({table}, {{0, 0, Combiner::kSum}});
          do {
            try {
              change(*table, its, own);
            } catch (const std::logic_error&) {  // the other one evicted rows that were found
            }
          } while (!is_written);
        });
      }
      chain.push_back(folder.path() / std::to_string(i));
      std::filesystem::create_directory(chain.back());
      write_snapshot(*table, cut,
                     {.directory = chain.back(),
                      .kind = i == 0 ? SnapshotKind::kBase : SnapshotKind::kDelta,
                      .num_shards = 3,
                      .num_threads = 2});
      commit_cut(*table, cut);
      is_written = true;
      trainers.clear();
      const auto read = make_table(choice);
      read_snapshot(*read, chain);
      CHECK(content_of(*read) == want);
    }
  }
}

TEST(several_cuts_of_a_table_are_written_in_any_order) {
  Random random(83);
  for (int round = 0; round < 20; ++round) {
    const auto choice = random_choice(random);
    const auto table = make_table(choice);
    BatchLookup lookup({table}, {{0, 0, Combiner::kSum}});
    const TemporaryFolder folder;
    std::vector<std::unique_ptr<Cut>> cuts;
    std::vector<Bytes> want;
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < 3; ++k) change(*table, lookup, random);
      want.push_back(content_of(*table));
      cuts.push_back(std::make_unique<Cut>(*table));
    }
    for (int k = 0; k < 3; ++k) change(*table, lookup, random);
    const std::size_t clear_at = random() % 8;  // in half of the rounds
    std::vector<std::size_t> order{0, 1, 2, 3};
    std::ranges::shuffle(order, random);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i == clear_at) {
        const std::lock_guard lock(table->mutex());
        table->clear();
      }
      const auto directory = folder.path() / std::to_string(i);
      std::filesystem::create_directory(directory);
      write_snapshot(*table, *cuts[order[i]], {.directory = directory});
      change(*table, lookup, random);
      const auto read = make_table(choice);
      read_snapshot(*read, std::vector{directory});
      CHECK(content_of(*read) == want[order[i]]);
    }
    CHECK(table->cut_content() == nullptr);
  }
}

TEST(a_cut_that_is_released_stops_its_write) {
  const auto table = make_table();
  std::vector<std::int64_t> ids(20'000);
  std::iota(ids.begin(), ids.end(), 0);
  write_rows(*table, ids, std::vector<float>(ids.size() * table->layout().dim, 1.0f));
  const TemporaryFolder folder;
  Cut cut(*table);
  std::jthread writing;
  std::jthread releasing;
  {
    const std::lock_guard lock(table->mutex());  // so that the write cannot end before
    writing = std::jthread([&] {
      CHECK_THROWS(std::runtime_error,
                   write_snapshot(*table, cut, {.directory = folder.path(), .num_threads = 1}));
    });
    while (std::filesystem::is_empty(folder.path())) std::this_thread::yield();
    releasing = std::jthread([&] { cut.release(); });
    while (!cut.is_released()) std::this_thread::yield();
  }
  writing.join();
  releasing.join();
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(table->cut_content() == nullptr);
}

TEST(a_cut_is_written_once_or_dropped) {
  const auto table = make_table();
  const TemporaryFolder folder;
  Cut first(*table);
  write_snapshot(*table, first, {.directory = folder.path()});
  CHECK_THROWS(std::logic_error, write_snapshot(*table, first, {.directory = folder.path()}));
  {
    const Cut dropped(*table);
    CHECK(table->cut_content() != nullptr);
  }
  CHECK(table->cut_content() == nullptr);
  Cut failing(*table);
  CHECK_THROWS(WriteFault, write_snapshot(*table, failing, {.directory = folder.path()}));
  CHECK(table->cut_content() == nullptr);
  commit_cut(*table, first);
}

TEST(a_delta_whose_parent_was_replaced_is_refused) {
  const auto table = make_table();
  const TemporaryFolder folder;
  const auto make = [&](const std::string& name) {
    std::filesystem::create_directory(folder.path() / name);
    return folder.path() / name;
  };
  Cut base(*table);
  write_snapshot(*table, base, {.directory = make("base")});
  commit_cut(*table, base);
  Cut first(*table);
  write_snapshot(*table, first, {.directory = make("first"), .kind = SnapshotKind::kDelta});
  Cut second(*table);
  commit_cut(*table, first);  // the tombstones that the second would need are gone
  CHECK_THROWS(
      std::logic_error,
      write_snapshot(*table, second, {.directory = make("second"), .kind = SnapshotKind::kDelta}));
  CHECK(std::filesystem::is_empty(folder.path() / "second"));
}

TEST(without_memory_for_copies_the_snapshot_fails_and_training_continues) {
  use_threads(1);
  const Admission many{.kind = AdmissionKind::kCount, .threshold = 99.0};
  const auto table = make_table({.admission = many});
  const std::vector<std::int64_t> ids{1, 2, 3};
  const std::vector<std::uint32_t> counts(3, 1);
  count_impressions(*table, {ids, counts, counts, 5});
  Cut cut(*table);
  const std::uint64_t id = 1;
  {
    const std::lock_guard lock(table->mutex());
    num_allocations_left = 0;
    table->count_impression({id, 6, false}, Row());  // its counter cannot be kept
    num_allocations_left = -1;
  }
  CHECK(sorted_candidates(*table)[0].show == 2);
  const TemporaryFolder folder;
  CHECK_THROWS(std::runtime_error, write_snapshot(*table, cut, {.directory = folder.path()}));
  CHECK(std::filesystem::is_empty(folder.path()));
  Cut next(*table);
  CHECK(write_snapshot(*table, next, {.directory = folder.path()}).counts.candidates == 3);
  use_threads(2);
}

}  // namespace fleetrec::testing
