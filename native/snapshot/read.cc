// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "fleetrec/parallel.h"
#include "fleetrec/snapshot/crc32c.h"
#include "fleetrec/snapshot/snapshot.h"

namespace fleetrec {
namespace {

struct LoadedShard {
  ShardCounts counts;
  std::uint64_t num_bytes = 0;
  std::uint32_t crc = 0;
};

// Loads one file into the buckets that belong to it, so files may be loaded side by side.
class ShardReader {
 public:
  ShardReader(Table& table, const InputFile& file, const ReadHeader& head)
      : table_(table), file_(file), header_(head.header), offset_(head.end) {
    crc_ = crc_of_crc(0, head.crc);
  }

  LoadedShard load_all() {
    for (std::uint32_t b = header_.first_bucket(); b < header_.last_bucket(); ++b) {
      table_.buckets()[b].candidates = {};  // every snapshot has them all
    }
    while (load_block()) {
    }
    return {counts_, file_.num_bytes(), crc_};
  }

 private:
  // Returns false behind the footer.
  bool load_block() {
    std::byte head[kBlockHeadBytes];
    file_.read(offset_, head);
    const auto kind = load<BlockKind>(head);
    if (kind == BlockKind::kEnd) {
      check_footer();
      return false;
    }
    check_kind(kind);
    const std::size_t num_entries = load<std::uint32_t>(head + 4);
    const std::size_t num_bytes = load<std::uint32_t>(head + 8);
    if (num_entries == 0 || num_entries > max_entries(kind, table_.layout()) ||
        num_bytes != num_entries * entry_bytes(kind, table_.layout())) {
      file_.fail(offset_, "damaged: impossible block of " + std::to_string(num_entries) +
                              " entries in " + std::to_string(num_bytes) + " bytes");
    }
    if (num_bytes > file_.num_bytes() - offset_ - kBlockHeadBytes) {
      file_.fail(offset_, "damaged: the file ends within this block");
    }
    content_.resize(num_bytes);
    file_.read(offset_ + kBlockHeadBytes, content_);
    const auto crc = load<std::uint32_t>(head + 12);
    if (crc32c(crc32c(0, std::span(head).first(12)), content_) != crc) {
      file_.fail(offset_, "damaged: the checksum of this block is wrong");
    }
    crc_ = crc_of_crc(crc_, crc);
    load_entries(kind, num_entries);
    counts_.of(kind) += num_entries;
    offset_ += kBlockHeadBytes + num_bytes;
    return true;
  }

  void check_kind(BlockKind kind) {
    const bool is_known = kind == BlockKind::kRows || kind == BlockKind::kCandidates ||
                          (kind == BlockKind::kTombstones && header_.kind == SnapshotKind::kDelta);
    if (!is_known || kind < last_kind_) {
      file_.fail(offset_, "damaged: a block of kind " +
                              std::to_string(static_cast<std::uint32_t>(kind)) + " here");
    }
    if (kind != last_kind_) has_last_ = false;
    last_kind_ = kind;
  }

  void load_entries(BlockKind kind, std::size_t num_entries) {
    for (std::size_t i = 0; i < num_entries; ++i) {
      const auto id = load<std::uint64_t>(&content_[8 * i]);
      const Place place = check_id(id);
      if (kind == BlockKind::kTombstones) {
        table_.remove(id, place);
      } else if (kind == BlockKind::kRows) {
        load_row(id, place, i, num_entries);
      } else {
        load_candidate(id, place, i, num_entries);
      }
    }
  }

  // Returns the place of an id that belongs into this file, behind the one before.
  Place check_id(std::uint64_t id) {
    const auto name = [id] { return "id " + std::to_string(id); };
    if (!table_.is_in_range(id)) file_.fail(offset_, name() + " lies out of the table's range");
    const Place place = table_.place(id);
    if (place.bucket < header_.first_bucket() || place.bucket >= header_.last_bucket()) {
      file_.fail(offset_, name() + " does not belong to this shard");
    }
    const std::pair order(place.bucket, id);
    if (has_last_ && order <= last_) file_.fail(offset_, name() + " is out of order");
    last_ = order;
    has_last_ = true;
    return place;
  }

  void load_row(std::uint64_t id, Place place, std::size_t i, std::size_t num_rows) {
    const RowLayout& layout = table_.layout();
    Row row = table_.find(id, place);
    if (!row) row = table_.add(id, place);
    const std::byte* last_seen = content_.data() + 8 * num_rows;
    const std::byte* shows = last_seen + 4 * num_rows;
    const std::byte* clicks = shows + 4 * num_rows;
    const std::byte* weights = clicks + 4 * num_rows;
    const std::byte* states = weights + 4 * layout.dim * num_rows;
    RowHeader& header = row.header();
    header.last_seen = load<std::uint32_t>(last_seen + 4 * i);
    header.show = load<float>(shows + 4 * i);
    header.click = load<float>(clicks + 4 * i);
    header.version = table_.version();
    std::memcpy(row.weights(), weights + 4 * layout.dim * i, 4 * layout.dim);
    if (layout.state_size == 0) return;
    std::memcpy(row.state(layout).data(), states + 4 * layout.state_size * i,
                4 * layout.state_size);
  }

  void load_candidate(std::uint64_t id, Place place, std::size_t i, std::size_t size) {
    const std::byte* content = content_.data();
    const Candidate candidate{.id = id,
                              .last_seen = load<std::uint32_t>(content + 8 * size + 4 * i),
                              .show = load<std::uint16_t>(content + 12 * size + 2 * i),
                              .click = load<std::uint16_t>(content + 14 * size + 2 * i)};
    if (candidate.show == 0 || table_.find(id, place)) {
      file_.fail(offset_, "id " + std::to_string(id) + " cannot be a candidate");
    }
    table_.buckets()[place.bucket].candidates.insert(candidate);
  }

  void check_footer() {
    std::byte footer[kFooterBytes];
    file_.read(offset_, footer);
    crc_ = crc_of_counts(crc_, counts_);
    if (load<std::uint32_t>(footer + 4) != crc_ ||
        load<std::uint64_t>(footer + 8) != counts_.tombstones ||
        load<std::uint64_t>(footer + 16) != counts_.rows ||
        load<std::uint64_t>(footer + 24) != counts_.candidates) {
      file_.fail(offset_, "damaged: the checksum or the counts of the file are wrong");
    }
    if (std::memcmp(footer + 32, kSnapshotEnd.data(), kSnapshotEnd.size()) != 0) {
      file_.fail(offset_ + 32, "damaged: the mark at the end is wrong");
    }
    if (file_.num_bytes() != offset_ + kFooterBytes) {
      file_.fail(offset_ + kFooterBytes, "damaged: there are bytes behind the end");
    }
  }

  Table& table_;
  const InputFile& file_;
  const ShardHeader& header_;
  std::uint64_t offset_;
  std::vector<std::byte> content_;
  ShardCounts counts_;
  std::uint32_t crc_ = 0;
  BlockKind last_kind_ = BlockKind::kTombstones;
  std::pair<std::uint32_t, std::uint64_t> last_;
  bool has_last_ = false;
};

void check_same(const InputFile& file, const std::string& what, const std::string& found,
                const std::string& expected) {
  if (found == expected) return;
  throw FormatFault(file.path(), "holds " + what + " " + found + ", expected " + expected);
}

void check_table(const InputFile& file, const ShardHeader& header, const Table& table) {
  const ShardHeader own = describe_table(table);
  const auto range = [](std::uint64_t limit) {
    return limit == kAnyId ? std::string("any") : "below " + std::to_string(limit);
  };
  check_same(file, "table", header.table, own.table);
  check_same(file, "rows of width", std::to_string(header.dim), std::to_string(own.dim));
  check_same(file, "state of optimizer", header.optimizer, own.optimizer);
  check_same(file, "state of width", std::to_string(header.state_size),
             std::to_string(own.state_size));
  check_same(file, "ids", range(header.id_limit), range(own.id_limit));
}

// Throws unless the folder holds all shards of one snapshot and no other file of the kind.
std::uint32_t count_shards(const std::filesystem::path& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (auto entry = std::filesystem::directory_iterator(directory, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".snap") names.push_back(entry->path().filename().string());
  }
  if (error) throw FormatFault(directory, "cannot be read: " + error.message());
  if (names.empty()) throw FormatFault(directory, "holds no snapshot");
  std::ranges::sort(names);
  const InputFile first(directory / names[0]);
  const std::uint32_t num_shards = read_header(first).header.num_shards;
  for (std::uint32_t s = 0; s < num_shards; ++s) {
    const std::string expected = shard_name(s, num_shards);
    if (s >= names.size() || names[s] != expected) {
      throw FormatFault(directory / expected, "is missing");
    }
  }
  if (names.size() > num_shards) {
    throw FormatFault(directory / names[num_shards], "does not belong to the snapshot");
  }
  return num_shards;
}

std::string describe(const CutMark& mark) {
  return std::to_string(mark.version) + " (" + std::to_string(mark.fingerprint) + ")";
}

void check_chain(const std::filesystem::path& directory, const ShardHeader& header,
                 const CutMark& before) {
  if (before.version == 0) {
    if (header.kind != SnapshotKind::kBase) {
      throw FormatFault(directory, "is a delta; expected a base first");
    }
  } else if (header.kind != SnapshotKind::kDelta) {
    throw FormatFault(directory, "is a base; expected a delta of " + describe(before));
  } else if (header.parent != before) {
    throw FormatFault(directory, "is a delta of " + describe(header.parent) +
                                     "; the snapshot before it is " + describe(before));
  }
}

// Applies one snapshot; `stats` are those of the one before.
void read_one(Table& table, const std::filesystem::path& directory, SnapshotStats& stats) {
  const std::uint32_t num_shards = count_shards(directory);
  const InputFile first(directory / shard_name(0, num_shards));
  const ShardHeader header = read_header(first).header;
  check_table(first, header, table);
  check_chain(directory, header, {stats.version, stats.fingerprint});
  table.set_version(header.version);
  std::vector<LoadedShard> loaded(num_shards);
  parallel_for(num_shards, [&](std::size_t s) {
    const auto shard = static_cast<std::uint32_t>(s);
    const InputFile file(directory / shard_name(shard, num_shards));
    const ReadHeader head = read_header(file);
    ShardHeader expected = header;
    expected.shard = shard;
    if (head.header != expected) {
      throw FormatFault(file.path(), "does not belong to the snapshot of the other shards");
    }
    loaded[s] = ShardReader(table, file, head).load_all();
  });
  stats.version = header.version;
  stats.lsn = header.lsn;
  stats.fingerprint = 0;
  for (const LoadedShard& shard : loaded) {
    stats.counts.tombstones += shard.counts.tombstones;
    stats.counts.rows += shard.counts.rows;
    stats.counts.candidates += shard.counts.candidates;
    stats.num_bytes += shard.num_bytes;
    stats.fingerprint = add_to_fingerprint(stats.fingerprint, shard.crc);
  }
}

}  // namespace

SnapshotStats read_snapshot(Table& table, std::span<const std::filesystem::path> directories) {
  const std::lock_guard lock(table.mutex());
  const std::uint32_t version = table.version();
  table.clear();
  try {
    if (directories.empty()) throw std::invalid_argument("expected at least a base to read");
    SnapshotStats stats;
    for (const auto& directory : directories) read_one(table, directory, stats);
    table.set_last_cut({stats.version, stats.fingerprint});
    table.next_version();
    return stats;
  } catch (...) {
    table.clear();
    table.set_version(version);
    throw;
  }
}

}  // namespace fleetrec
