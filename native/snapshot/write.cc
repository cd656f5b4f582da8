// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "fleetrec/parallel.h"
#include "fleetrec/snapshot/crc32c.h"
#include "fleetrec/snapshot/snapshot.h"

namespace fleetrec {
namespace {

struct WrittenShard {
  ShardCounts counts;
  std::uint64_t num_bytes = 0;
  std::uint32_t crc = 0;
};

class ShardWriter {
 public:
  ShardWriter(const Table& table, const ShardHeader& header, OutputFile& file)
      : table_(table), header_(header), file_(file) {}

  WrittenShard write() {
    ByteSink head;
    put_header(head, header_);
    file_.write(head.bytes());
    crc_ = crc_of_crc(0, load<std::uint32_t>(head.bytes().last(4).data()));
    if (header_.kind == SnapshotKind::kDelta) write_tombstones();
    write_rows();
    write_candidates();
    write_footer();
    return {counts_, file_.offset(), crc_};
  }

 private:
  // Puts columns of `entries` into `content`, which has just their size.
  template <typename Entry>
  using Fill = void (ShardWriter::*)(std::span<const Entry> entries, std::byte* content) const;

  void write_tombstones() {
    std::vector<std::uint64_t> ids;
    for_each_bucket<std::uint64_t>(BlockKind::kTombstones, &ShardWriter::fill_tombstones,
                                   [&](std::uint32_t bucket) {
                                     ids = table_.buckets()[bucket].tombstones;
                                     std::ranges::sort(ids);
                                     ids.erase(std::ranges::unique(ids).begin(), ids.end());
                                     // An id that came back has its new row in this delta.
                                     std::erase_if(ids, [&](std::uint64_t id) {
                                       return static_cast<bool>(table_.find(id, table_.place(id)));
                                     });
                                     return std::span<const std::uint64_t>(ids);
                                   });
  }

  void write_rows() {
    std::vector<Row> rows;
    const std::uint32_t after = header_.parent.version;  // 0 in a base: all
    for_each_bucket<Row>(BlockKind::kRows, &ShardWriter::fill_rows, [&](std::uint32_t bucket) {
      rows.clear();
      table_.each_row(bucket, [&](const Row& row) {
        if (row.header().version > after) rows.push_back(row);
      });
      std::ranges::sort(rows, {}, [](const Row& row) { return row.header().id(); });
      return std::span<const Row>(rows);
    });
  }

  void write_candidates() {
    std::vector<Candidate> candidates;
    for_each_bucket<Candidate>(
        BlockKind::kCandidates, &ShardWriter::fill_candidates, [&](std::uint32_t bucket) {
          candidates = table_.buckets()[bucket].candidates.entries();
          std::erase_if(candidates, [](const Candidate& candidate) { return candidate.show == 0; });
          std::ranges::sort(candidates, {}, &Candidate::id);
          return std::span<const Candidate>(candidates);
        });
  }

  // Cuts what `list` returns for the buckets of the shard into full blocks.
  template <typename Entry, typename List>
  void for_each_bucket(BlockKind kind, Fill<Entry> fill, const List& list) {
    const std::size_t full = max_entries(kind, table_.layout());
    std::vector<Entry> waiting;
    const auto flush = [&](std::span<const Entry> entries) {
      std::byte* content = start_block(kind, entries.size());
      (this->*fill)(entries, content);
      end_block(kind, entries.size());
    };
    for (std::uint32_t bucket = header_.first_bucket(); bucket < header_.last_bucket(); ++bucket) {
      std::span<const Entry> entries = list(bucket);
      while (!entries.empty()) {
        const std::size_t taken = std::min(full - waiting.size(), entries.size());
        waiting.insert(waiting.end(), entries.begin(),
                       entries.begin() + static_cast<std::ptrdiff_t>(taken));
        entries = entries.subspan(taken);
        if (waiting.size() < full) continue;
        flush(waiting);
        waiting.clear();
      }
    }
    if (!waiting.empty()) flush(waiting);
  }

  std::byte* start_block(BlockKind kind, std::size_t num_entries) {
    const std::size_t num_bytes = num_entries * entry_bytes(kind, table_.layout());
    block_.clear();
    block_.put(kind);
    block_.put(static_cast<std::uint32_t>(num_entries));
    block_.put(static_cast<std::uint32_t>(num_bytes));
    block_.put(std::uint32_t{0});
    return block_.extend(num_bytes);
  }

  void end_block(BlockKind kind, std::size_t num_entries) {
    const auto bytes = block_.bytes();
    const std::uint32_t crc = crc32c(crc32c(0, bytes.first(12)), bytes.subspan(kBlockHeadBytes));
    block_.set(12, crc);
    crc_ = crc_of_crc(crc_, crc);
    counts_.of(kind) += num_entries;
    file_.write(block_.bytes());
  }

  void fill_tombstones(std::span<const std::uint64_t> ids, std::byte* content) const {
    std::ranges::copy(std::as_bytes(ids), content);
  }

  void fill_rows(std::span<const Row> rows, std::byte* content) const {
    const RowLayout& layout = table_.layout();
    std::byte* ids = content;
    std::byte* last_seen = ids + 8 * rows.size();
    std::byte* shows = last_seen + 4 * rows.size();
    std::byte* clicks = shows + 4 * rows.size();
    std::byte* weights = clicks + 4 * rows.size();
    std::byte* states = weights + 4 * layout.dim * rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const RowHeader& header = rows[i].header();
      store(ids + 8 * i, header.id());
      store(last_seen + 4 * i, header.last_seen);
      store(shows + 4 * i, header.show);
      store(clicks + 4 * i, header.click);
      std::ranges::copy(std::as_bytes(rows[i].weights(layout)), weights + 4 * layout.dim * i);
      std::ranges::copy(std::as_bytes(rows[i].state(layout)), states + 4 * layout.state_size * i);
    }
  }

  void fill_candidates(std::span<const Candidate> candidates, std::byte* content) const {
    const std::size_t size = candidates.size();
    for (std::size_t i = 0; i < size; ++i) {
      store(content + 8 * i, candidates[i].id);
      store(content + 8 * size + 4 * i, candidates[i].last_seen);
      store(content + 12 * size + 2 * i, candidates[i].show);
      store(content + 14 * size + 2 * i, candidates[i].click);
    }
  }

  void write_footer() {
    crc_ = crc_of_counts(crc_, counts_);
    ByteSink footer;
    footer.put(BlockKind::kEnd);
    footer.put(crc_);
    footer.put(counts_.tombstones);
    footer.put(counts_.rows);
    footer.put(counts_.candidates);
    footer.put_text(kSnapshotEnd);
    file_.write(footer.bytes());
  }

  const Table& table_;
  const ShardHeader& header_;
  OutputFile& file_;
  ByteSink block_;
  ShardCounts counts_;
  std::uint32_t crc_ = 0;
};

WrittenShard write_shard(const Table& table, const ShardHeader& header,
                         const SnapshotTarget& target) {
  OutputFile file(target.directory / shard_name(header.shard, header.num_shards));
  try {
    const WrittenShard written = ShardWriter(table, header, file).write();
    if (target.sync) file.sync();
    file.close();
    return written;
  } catch (...) {
    std::error_code ignored;  // the first failure is the one to tell of
    std::filesystem::remove(file.path(), ignored);
    throw;
  }
}

void check_target(const Table& table, const Cut& cut, const SnapshotTarget& target) {
  const std::string where = "table " + table.options().name + ": ";
  if (target.num_shards == 0 || target.num_shards > kMaxShards) {
    throw std::invalid_argument(where + "num_shards must be from 1 to " +
                                std::to_string(kMaxShards) + ", got " +
                                std::to_string(target.num_shards));
  }
  if (target.first_shard > target.last_shard.value_or(target.num_shards) ||
      target.last_shard.value_or(0) > target.num_shards) {
    throw std::invalid_argument(where + "no such shards");
  }
  if (target.kind == SnapshotKind::kDelta && cut.parent().version == 0) {
    throw std::logic_error(where + "a delta needs a base that was committed before it");
  }
  constexpr std::size_t kMaxRowBytes = std::size_t{1} << 31;
  if (table.options().name.size() > kMaxNameBytes ||
      entry_bytes(BlockKind::kRows, table.layout()) > kMaxRowBytes) {
    throw std::invalid_argument(where + "its name or its rows are too long for a snapshot");
  }
}

}  // namespace

SnapshotStats write_snapshot(Table& table, Cut& cut, const SnapshotTarget& target) {
  const std::lock_guard lock(table.mutex());
  cut.check_current(table);
  check_target(table, cut, target);
  ShardHeader header = describe_table(table);
  header.kind = target.kind;
  header.num_shards = target.num_shards;
  if (target.kind == SnapshotKind::kDelta) header.parent = cut.parent();
  header.version = cut.version();
  header.lsn = target.lsn;
  const std::uint32_t first = target.first_shard;
  std::vector<std::optional<WrittenShard>> shards(target.last_shard.value_or(target.num_shards) -
                                                  first);
  try {
    parallel_for(shards.size(), [&](std::size_t s) {
      ShardHeader own = header;
      own.shard = first + static_cast<std::uint32_t>(s);
      shards[s] = write_shard(table, own, target);
    });
    if (target.sync) sync_directory(target.directory);
  } catch (...) {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      std::error_code ignored;
      const auto name = shard_name(first + static_cast<std::uint32_t>(s), target.num_shards);
      if (shards[s]) std::filesystem::remove(target.directory / name, ignored);
    }
    throw;
  }
  SnapshotStats stats;
  stats.version = cut.version();
  stats.lsn = target.lsn;
  for (const auto& shard : shards) {
    stats.counts.tombstones += shard->counts.tombstones;
    stats.counts.rows += shard->counts.rows;
    stats.counts.candidates += shard->counts.candidates;
    stats.num_bytes += shard->num_bytes;
    stats.fingerprint = add_to_fingerprint(stats.fingerprint, shard->crc);
    stats.crcs.push_back(shard->crc);
  }
  cut.fingerprint_ = stats.fingerprint;
  return stats;
}

}  // namespace fleetrec
