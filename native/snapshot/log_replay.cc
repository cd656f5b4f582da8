// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "fleetrec/snapshot/log.h"
#include "fleetrec/snapshot/log_segment.h"

namespace fleetrec {
namespace {

using Tables = std::span<const std::shared_ptr<Table>>;

void check_tables(const SegmentReader& segment, Tables tables) {
  std::vector<LogTable> expected;
  for (const auto& table : tables) {
    expected.push_back({table->options().name, static_cast<std::uint32_t>(table->layout().dim)});
  }
  if (segment.header().tables == expected) return;
  const auto list = [](const std::vector<LogTable>& some) {
    std::string text;
    for (const LogTable& table : some) {
      text += (text.empty() ? "" : ", ") + table.name + " of width " + std::to_string(table.dim);
    }
    return text;
  };
  throw FormatFault(segment.file().path(), "is a log of " + list(segment.header().tables) +
                                               "; expected " + list(expected));
}

// Throws for content that no table can take.
void check_record(const InputFile& file, std::uint64_t offset, const Record& record,
                  Tables tables) {
  for (const Operation& operation : record.operations) {
    for (std::size_t i = 0; i < operation.num_entries; ++i) {
      const auto id = load<std::uint64_t>(operation.ids + 8 * i);
      if (!tables[operation.table]->is_in_range(id)) {
        file.fail(offset, "id " + std::to_string(id) + " lies out of the table's range");
      }
      if (operation.kind == OperationKind::kImpressions &&
          std::to_integer<unsigned>(operation.payload[i]) > 1) {
        file.fail(offset, "a click that is neither 0 nor 1");
      }
    }
  }
}

class Replay {
 public:
  Replay(Tables tables, std::uint64_t after_lsn) : tables_(tables) { stats_.last_lsn = after_lsn; }

  // Reads everything once without a change to the tables.
  void check(std::span<const std::filesystem::path> segments) {
    std::uint64_t next_lsn = 0;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      SegmentReader segment(segments[s]);
      check_tables(segment, tables_);
      check_begin(segment, next_lsn);
      std::uint64_t offset = segment.offset();
      while (const Record* record = segment.next()) {
        check_record(segment.file(), offset, *record, tables_);
        note(record->request);
        offset = segment.offset();
      }
      next_lsn = segment.next_lsn();
      if (segment.torn_reason().empty()) continue;
      if (s + 1 < segments.size()) {
        segment.file().fail(offset, segment.torn_reason() + ", and another segment follows");
      }
      stats_.torn = TornPlace{segments[s], offset, segment.torn_reason()};
    }
  }

  void apply(const std::filesystem::path& path) {
    SegmentReader segment(path);
    std::uint64_t offset = segment.offset();
    while (const Record* record = segment.next()) {
      if (record->lsn > stats_.last_lsn) {
        for (const Operation& operation : record->operations) {
          apply(operation, segment.file(), offset);
        }
        stats_.last_lsn = record->lsn;
        ++stats_.num_applied;
      }
      offset = segment.offset();
    }
  }

  ReplayStats take_stats() {
    for (const auto& [worker, request] : requests_) stats_.last_requests.push_back(request);
    return std::move(stats_);
  }

 private:
  void check_begin(const SegmentReader& segment, std::uint64_t next_lsn) const {
    const std::uint64_t first = segment.header().first_lsn;
    if (next_lsn == 0 ? first <= stats_.last_lsn + 1 : first == next_lsn) return;
    const std::uint64_t before = next_lsn == 0 ? stats_.last_lsn : next_lsn - 1;
    throw FormatFault(segment.file().path(), "begins with record " + std::to_string(first) +
                                                 "; what comes before ends with " +
                                                 std::to_string(before));
  }

  void note(const Request& request) {
    Request& last = requests_.try_emplace(request.worker, request).first->second;
    if (std::pair(request.incarnation, request.sequence) >
        std::pair(last.incarnation, last.sequence)) {
      last = request;
    }
  }

  void apply(const Operation& operation, const InputFile& file, std::uint64_t offset) {
    Table& table = *tables_[operation.table];
    std::vector<float> grad(table.layout().dim);
    const std::size_t grad_bytes = grad.size() * sizeof(float);
    for (std::size_t i = 0; i < operation.num_entries; ++i) {
      const auto id = load<std::uint64_t>(operation.ids + 8 * i);
      const Place place = table.place(id);
      if (operation.kind == OperationKind::kImpressions) {
        table.count_impression({id, operation.now, operation.payload[i] != std::byte{0}},
                               table.find(id, place));
        continue;
      }
      if (operation.kind == OperationKind::kEviction) {
        table.evict(id, place);
        continue;
      }
      const Row row = table.find(id, place);
      if (!row) {
        file.fail(offset, "a gradient for id " + std::to_string(id) +
                              ", which has no row in table " + table.options().name +
                              ": the log does not follow the snapshot");
      }
      std::memcpy(grad.data(), operation.payload + i * grad_bytes, grad_bytes);
      table.touch(row);
      table.optimizer().update(row.weights(table.layout()), row.state(table.layout()), grad,
                               operation.lr);
    }
  }

  Tables tables_;
  ReplayStats stats_;
  std::map<std::uint32_t, Request> requests_;
};

std::vector<std::unique_lock<std::mutex>> lock_all(Tables tables) {
  std::vector<Table*> ordered;
  for (const auto& table : tables) ordered.push_back(table.get());
  std::ranges::sort(ordered);  // as lookups do, so that neither waits for the other
  ordered.erase(std::ranges::unique(ordered).begin(), ordered.end());
  std::vector<std::unique_lock<std::mutex>> locks;
  for (Table* table : ordered) locks.emplace_back(table->mutex());
  return locks;
}

}  // namespace

ReplayStats replay_log(Tables tables, std::span<const std::filesystem::path> segments,
                       std::uint64_t after_lsn, TornTail torn_tail) {
  const auto locks = lock_all(tables);
  Replay replay(tables, after_lsn);
  replay.check(segments);
  try {
    for (const auto& segment : segments) replay.apply(segment);
  } catch (...) {
    for (const auto& table : tables) table->clear();
    throw;
  }
  ReplayStats stats = replay.take_stats();
  if (stats.torn && torn_tail == TornTail::kTruncate) {
    std::error_code error;
    std::filesystem::resize_file(stats.torn->path, stats.torn->offset, error);
    if (error) throw WriteFault(stats.torn->path, error.value());
  }
  return stats;
}

}  // namespace fleetrec
