// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "fleetrec/parallel.h"
#include "fleetrec/snapshot/crc32c.h"
#include "fleetrec/snapshot/cut_reader.h"
#include "fleetrec/snapshot/pacer.h"
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
  // `is_beside`: other threads train. Then this one pauses often, and moves the file to the disk
  // while it writes it.
  ShardWriter(CutReader& reader, const ShardHeader& header, OutputFile& file, bool is_beside)
      : reader_(reader), header_(header), file_(file), is_beside_(is_beside), pacer_(is_beside) {}

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
  void write_tombstones() {
    write_lists<std::uint64_t>(
        BlockKind::kTombstones, [&](std::uint32_t bucket) { return reader_.tombstones(bucket); },
        [](std::span<const std::uint64_t> ids, std::byte* content) {
          std::ranges::copy(std::as_bytes(ids), content);
        });
  }

  void write_candidates() {
    write_lists<Candidate>(
        BlockKind::kCandidates, [&](std::uint32_t bucket) { return reader_.candidates(bucket); },
        fill_candidates);
  }

  void write_rows() {
    const std::size_t full = max_entries(BlockKind::kRows, reader_.layout());
    RowCopies rows(reader_.layout());
    for (std::uint32_t bucket = header_.first_bucket(); bucket < header_.last_bucket(); ++bucket) {
      reader_.read_rows(bucket, rows);
      std::size_t written = 0;
      for (; rows.size() - written >= full; written += full) write_rows(rows, written, full);
      rows.drop(written);
    }
    if (rows.size() > 0) write_rows(rows, 0, rows.size());
  }

  void write_rows(RowCopies& rows, std::size_t first, std::size_t count) {
    fill_rows(rows, first, count, start_block(BlockKind::kRows, count));
    end_block(BlockKind::kRows, count);
  }

  // Cuts what `list` returns for the buckets of the shard into full blocks; `fill` puts the columns
  // of some entries into a block that has just their size.
  template <typename Entry, typename List, typename Fill>
  void write_lists(BlockKind kind, const List& list, const Fill& fill) {
    const std::size_t full = max_entries(kind, reader_.layout());
    std::vector<Entry> waiting;
    const auto write_first = [&](std::size_t first, std::size_t count) {
      fill(std::span<const Entry>(waiting).subspan(first, count), start_block(kind, count));
      end_block(kind, count);
    };
    for (std::uint32_t bucket = header_.first_bucket(); bucket < header_.last_bucket(); ++bucket) {
      const std::vector<Entry> entries = list(bucket);
      waiting.insert(waiting.end(), entries.begin(), entries.end());
      std::size_t written = 0;
      for (; waiting.size() - written >= full; written += full) write_first(written, full);
      waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(written));
    }
    if (!waiting.empty()) write_first(0, waiting.size());
  }

  std::byte* start_block(BlockKind kind, std::size_t num_entries) {
    const std::size_t num_bytes = num_entries * entry_bytes(kind, reader_.layout());
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
    write_block();
  }

  void write_block() {
    if (!is_beside_) return file_.write(block_.bytes());
    constexpr std::size_t kPieceBytes = std::size_t{1} << 17;
    for (auto rest = block_.bytes(); !rest.empty();) {
      const std::size_t num_bytes = std::min(rest.size(), kPieceBytes);
      file_.write(rest.first(num_bytes));
      rest = rest.subspan(num_bytes);
      pacer_.pause_if_due();
    }
    file_.write_back();
  }

  void fill_rows(RowCopies& rows, std::size_t first, std::size_t count, std::byte* content) {
    constexpr std::size_t kRowsPerCheck = 256;
    const RowLayout& layout = reader_.layout();
    std::byte* ids = content;
    std::byte* last_seen = ids + 8 * count;
    std::byte* shows = last_seen + 4 * count;
    std::byte* clicks = shows + 4 * count;
    std::byte* weights = clicks + 4 * count;
    std::byte* states = weights + 4 * layout.dim * count;
    for (std::size_t i = 0; i < count; ++i) {
      if (i % kRowsPerCheck == 0) pacer_.pause_if_due();
      const Row row = rows.at(first + i);
      const RowHeader& header = row.header();
      store(ids + 8 * i, header.id());
      store(last_seen + 4 * i, header.last_seen);
      store(shows + 4 * i, header.show);
      store(clicks + 4 * i, header.click);
      std::ranges::copy(std::as_bytes(row.weights(layout)), weights + 4 * layout.dim * i);
      std::ranges::copy(std::as_bytes(row.state(layout)), states + 4 * layout.state_size * i);
    }
  }

  static void fill_candidates(std::span<const Candidate> candidates, std::byte* content) {
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

  CutReader& reader_;
  const ShardHeader& header_;
  OutputFile& file_;
  bool is_beside_;
  Pacer pacer_;
  ByteSink block_;
  ShardCounts counts_;
  std::uint32_t crc_ = 0;
};

WrittenShard write_shard(CutReader& reader, const ShardHeader& header,
                         const SnapshotTarget& target) {
  OutputFile file(target.directory / shard_name(header.shard, header.num_shards));
  try {
    const WrittenShard written = ShardWriter(reader, header, file, target.num_threads > 0).write();
    if (target.sync) file.sync();
    file.close();
    return written;
  } catch (...) {
    std::error_code ignored;  // the first failure is the one to report
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

// Writes all shards of the target, or none.
std::vector<WrittenShard> write_shards(CutReader& reader, const ShardHeader& header,
                                       const SnapshotTarget& target) {
  const std::uint32_t first = target.first_shard;
  std::vector<std::optional<WrittenShard>> shards(target.last_shard.value_or(target.num_shards) -
                                                  first);
  try {
    const auto write_one = [&](std::size_t s) {
      ShardHeader own = header;
      own.shard = first + static_cast<std::uint32_t>(s);
      shards[s] = write_shard(reader, own, target);
    };
    if (target.num_threads == 0) {
      parallel_for(shards.size(), write_one);
    } else {
      parallel_for_background(target.num_threads, shards.size(), write_one);
    }
    if (target.sync) sync_directory(target.directory);
  } catch (...) {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      std::error_code ignored;
      const auto name = shard_name(first + static_cast<std::uint32_t>(s), target.num_shards);
      if (shards[s]) std::filesystem::remove(target.directory / name, ignored);
    }
    throw;
  }
  std::vector<WrittenShard> written;
  for (const auto& shard : shards) written.push_back(*shard);
  return written;
}

}  // namespace

SnapshotStats write_snapshot(Table& table, Cut& cut, const SnapshotTarget& target) {
  const std::lock_guard lock(cut.mutex_);
  struct LetGo {  // also after a failure
    Cut& cut;
    ~LetGo() { cut.let_go(); }
  } const let_go{cut};
  if (!cut.content_) {
    throw std::logic_error("table " + table.options().name +
                           ": the cut was written or released before");
  }
  check_target(table, cut, target);
  ShardHeader header = describe_table(table);
  header.kind = target.kind;
  header.num_shards = target.num_shards;
  if (target.kind == SnapshotKind::kDelta) header.parent = cut.parent();
  header.version = cut.version();
  header.lsn = target.lsn;
  CutReader reader(table, *cut.content_, header.parent.version, &cut.is_released_,
                   target.num_threads > 0);
  SnapshotStats stats;
  stats.version = cut.version();
  stats.lsn = target.lsn;
  for (const WrittenShard& shard : write_shards(reader, header, target)) {
    stats.counts.tombstones += shard.counts.tombstones;
    stats.counts.rows += shard.counts.rows;
    stats.counts.candidates += shard.counts.candidates;
    stats.num_bytes += shard.num_bytes;
    stats.fingerprint = add_to_fingerprint(stats.fingerprint, shard.crc);
    stats.crcs.push_back(shard.crc);
  }
  cut.fingerprint_ = stats.fingerprint;
  return stats;
}

}  // namespace fleetrec
