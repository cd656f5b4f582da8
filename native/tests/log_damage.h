// SPDX-License-Identifier: Apache-2.0
// Damaged logs: refused, and nothing has changed; or the tables are those after a record.
#pragma once

#include "allocation.h"
#include "damage.h"
#include "fleetrec/snapshot/log.h"

namespace fleetrec::testing {

using TableList = std::vector<std::shared_ptr<Table>>;

// A log of two tables, where its parts end, and the tables after every record.
struct LogFile {
  TableChoice choice;
  Bytes bytes;
  std::vector<std::size_t> ends;  // of the header and of every record
  std::vector<Bytes> contents;    // after none, one, two, ... records
};

inline Bytes content_of(const TableList& tables) {
  Bytes all;
  for (const auto& table : tables) {
    const Bytes content = content_of(*table);
    all.insert(all.end(), content.begin(), content.end());
  }
  return all;
}

inline TableList make_tables(const TableChoice& choice) {
  return {make_table(choice), make_table(choice)};
}

// Trains one table, evicts an id, and returns what that was; columns come from `lookup`.
inline Record train_and_tell(Table& table, std::uint32_t number, BatchLookup& lookup,
                             Random& random, std::vector<std::uint64_t>& evicted) {
  const Lists lists = random_lists(random, 1, 20, table.options().num_rows.value_or(200), 3);
  const auto now = static_cast<std::uint32_t>(random());
  const LookupContext context{.purpose = Purpose::kTrain, .now = now};
  lookup.find(lists.view(), context);
  lookup.apply(random_floats(random, lists.num_samples * lookup.width()), 0.1f, Changes::kKeep);
  evicted.assign(1 + random() % 3, random() % 150);
  for (const std::uint64_t id : evicted) table.evict(id, table.place(id));
  const auto count = [](std::size_t size) { return static_cast<std::uint32_t>(size); };
  Operation impressions{.kind = OperationKind::kImpressions,
                        .table = number,
                        .num_entries = count(lookup.num_impressions(0)),
                        .now = now};
  impressions.fill = [&lookup, context](std::byte* ids, std::byte* clicks) {
    lookup.copy_impressions(0, context, ids, clicks);
  };
  Operation push{.kind = OperationKind::kPush,
                 .table = number,
                 .num_entries = count(lookup.num_changes(0)),
                 .lr = 0.1f};
  push.fill = [&lookup](std::byte* ids, std::byte* grads) { lookup.copy_changes(0, ids, grads); };
  const Operation eviction{.kind = OperationKind::kEviction,
                           .table = number,
                           .num_entries = count(evicted.size()),
                           .ids = std::as_bytes(std::span(evicted)).data()};
  return {.lsn = 0,
          .request = {static_cast<std::uint32_t>(random() % 3), 0, random() % 100},
          .operations = {impressions, push, eviction}};
}

inline LogFile make_log(Random& random) {
  LogFile made{.choice = random_choice(random), .bytes = {}, .ends = {}, .contents = {}};
  const TableList tables = make_tables(made.choice);
  std::vector<BatchLookup> lookups;
  for (const auto& table : tables) lookups.push_back({{table}, {{0, 0, Combiner::kSum}}});
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  const auto dim = static_cast<std::uint32_t>(made.choice.dim);
  LogWriter log(path, {1, {{"t", dim}, {"t", dim}}});
  const auto note = [&] {
    made.ends.push_back(std::filesystem::file_size(path));
    made.contents.push_back(content_of(tables));
  };
  note();
  for (std::size_t i = 0; i < 1 + random() % 5; ++i) {
    const auto number = static_cast<std::uint32_t>(random() % 2);
    std::vector<std::uint64_t> evicted;
    log.append(train_and_tell(*tables[number], number, lookups[number], random, evicted));
    log.commit(Durability::kProcess);
    note();
  }
  made.bytes = read_bytes(path);
  return made;
}

// Changes what the header or a record says and signs it again.
inline void forge(Random& random, Bytes& bytes, const LogFile& made) {
  const std::size_t part = random() % made.ends.size();
  const std::size_t begin = part == 0 ? 0 : made.ends[part - 1] + kFrameBytes;
  const std::size_t end = part == 0 ? made.ends[0] - 4 : made.ends[part];
  const auto at = [&](std::size_t place) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(place);
  };
  Bytes body(at(begin), at(end));
  for (std::size_t i = 0; i <= random() % 2; ++i) {
    const std::size_t choice = random() % 6;
    const std::uint64_t number = nasty_number(random);
    // Numbers of tables and operations, and the head of the first operation.
    const std::size_t head = std::min<std::size_t>(24 + random() % 6 * 4, body.size() - 4);
    if (choice < 2) std::memcpy(&body[head], &number, 4);
    if (choice == 2) splice(random, body, made.bytes);
    if (choice > 2) overwrite(random, body);
  }
  ByteSink sink;
  sink.put_all(std::span<const std::byte>(bytes).first(part == 0 ? 0 : made.ends[part - 1]));
  if (part != 0) {
    sink.put(static_cast<std::uint32_t>(body.size()));
    sink.put(crc_of_record(body));
  }
  sink.put_all(std::span<const std::byte>(body));
  if (part == 0) sink.put(crc32c(0, body));
  sink.put_all(std::span<const std::byte>(bytes).subspan(made.ends[part]));
  bytes.assign(sink.bytes().begin(), sink.bytes().end());
}

// Damages a log and replays it.
inline void feed_damaged_log(Random& random) {
  const LogFile made = make_log(random);
  const TemporaryFolder folder;
  const std::filesystem::path segments[] = {folder.path() / "log"};
  for (int round = 0; round < 20; ++round) {
    Bytes bytes = made.bytes;
    const bool is_forged = random() % 2 == 0;
    if (is_forged) {
      forge(random, bytes, made);
    } else {
      damage(random, bytes, made.bytes);
    }
    write_bytes(segments[0], bytes);
    const TableList tables = make_tables(made.choice);
    const AllocationLimit limit(bytes.size());
    ReplayStats stats;
    try {
      stats = replay_log(tables, segments, 0, TornTail::kTruncate);
    } catch (const FormatFault&) {
      limit.check();
      for (const auto& table : tables) CHECK(is_empty(*table));
      continue;
    }
    limit.check();
    if (!is_forged) {
      CHECK(stats.last_lsn < made.contents.size());
      CHECK(content_of(tables) == made.contents[stats.last_lsn]);
    }
    // What was cut is gone, what was applied is still there.
    const TableList again = make_tables(made.choice);
    const ReplayStats stats_again = replay_log(again, segments, 0, TornTail::kKeep);
    CHECK(stats_again.last_lsn == stats.last_lsn && !stats_again.torn);
    CHECK(content_of(again) == content_of(tables));
  }
}

}  // namespace fleetrec::testing
