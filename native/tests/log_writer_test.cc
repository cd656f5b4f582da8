// SPDX-License-Identifier: Apache-2.0
// What a log writes: the same bytes, whether records wait for a commit or go straight to the file.
#include <atomic>
#include <cstring>
#include <thread>

#include "check.h"
#include "damage.h"
#include "fleetrec/snapshot/log.h"
#include "fleetrec/snapshot/log_segment.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

const std::vector<LogTable> kTables{{"t", 4}};

// A push of a number of ids, whose columns lie in pieces.
struct Push {
  std::vector<std::uint64_t> ids;
  std::vector<float> grads;

  Push(Random& random, std::size_t num_ids)
      : ids(num_ids), grads(random_floats(random, 4 * num_ids)) {
    for (std::uint64_t& id : ids) id = random();
  }

  Record record(std::size_t num_pieces) const {
    Operation push{.kind = OperationKind::kPush,
                   .table = 0,
                   .num_entries = static_cast<std::uint32_t>(ids.size()),
                   .lr = 0.5f};
    for (const auto& column : {std::as_bytes(std::span(ids)), std::as_bytes(std::span(grads))}) {
      const std::size_t length = column.size() / num_pieces;
      for (std::size_t i = 0; i + 1 < num_pieces; ++i) {
        push.pieces.push_back(column.subspan(i * length, length));
      }
      push.pieces.push_back(column.subspan((num_pieces - 1) * length));
    }
    Operation impressions{.kind = OperationKind::kImpressions,
                          .table = 0,
                          .num_entries = push.num_entries,
                          .now = 7,
                          .fill = [this](std::byte* to, std::byte* clicks) {
                            std::memcpy(to, ids.data(), ids.size() * sizeof(std::uint64_t));
                            std::fill_n(clicks, ids.size(), std::byte{1});
                          }};
    return {.lsn = 0, .request = {1, 2, 3}, .operations = {impressions, push}};
  }
};

}  // namespace

TEST(large_records_are_written_as_small_ones_are) {
  const TemporaryFolder folder;
  Random random(31);
  LogWriter log(folder.path() / "log", {1, kTables});
  ByteSink expected;
  put_log_header(expected, {1, kTables});
  for (std::uint64_t lsn = 1; lsn <= 12; ++lsn) {
    const Push push(random, lsn % 3 == 0 ? 50 : 10'000 + random() % 10'000);
    Record record = push.record(1 + random() % 600);
    CHECK(log.append(record) == lsn);
    record.lsn = lsn;
    put_record(expected, record, kTables);
    if (lsn % 3 != 0) CHECK(log.commit(Durability::kProcess) == lsn);
  }
  CHECK(log.commit(Durability::kProcess) == 12);
  const Bytes written = read_bytes(folder.path() / "log");
  CHECK(std::ranges::equal(written, expected.bytes()));
}

TEST(threads_append_large_and_small_records_to_one_log) {
  const TemporaryFolder folder;
  constexpr std::size_t kNumEach = 20;
  std::atomic<bool> all_safe = true;
  {
    LogWriter log(folder.path() / "log", {1, kTables});
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < 3; ++t) {
      threads.emplace_back([&log, &all_safe, t] {
        Random random(t);
        for (std::size_t i = 0; i < kNumEach; ++i) {
          const Push push(random, i % 2 == 0 ? 10 : 10'000);
          const std::uint64_t lsn = log.append(push.record(5));
          const auto level = t == 0 ? Durability::kDisk : Durability::kProcess;
          if (log.commit(level) < lsn) all_safe = false;
        }
      });
    }
  }
  CHECK(all_safe);
  SegmentReader reader(folder.path() / "log");
  std::size_t num_records = 0;
  while (reader.next() != nullptr) ++num_records;
  CHECK(num_records == 3 * kNumEach);
  CHECK(reader.torn_reason().empty());
}

}  // namespace fleetrec::testing
