// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "fleetrec/parallel.h"
#include "fleetrec/snapshot/block_reader.h"
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
  ShardReader(Table& table, BlockReader& blocks) : table_(table), blocks_(blocks) {}

  LoadedShard load_all() {
    for (std::uint32_t b = header().first_bucket(); b < header().last_bucket(); ++b) {
      table_.buckets()[b].candidates = {};  // every snapshot has them all
    }
    while (const Block* block = blocks_.next()) load_entries(*block);
    return {blocks_.counts(), blocks_.file().num_bytes(), blocks_.crc()};
  }

 private:
  const ShardHeader& header() const { return blocks_.header(); }

  [[noreturn]] void fail(const Block& block, std::uint64_t id, const std::string& reason) const {
    blocks_.file().fail(block.offset, "id " + std::to_string(id) + " " + reason);
  }

  void load_entries(const Block& block) {
    if (block.kind != last_kind_) has_last_ = false;
    last_kind_ = block.kind;
    for (std::size_t i = 0; i < block.num_entries; ++i) {
      const auto id = load<std::uint64_t>(&block.content[8 * i]);
      const Place place = check_id(block, id);
      if (!table_.holds(place.bucket)) continue;
      if (block.kind == BlockKind::kTombstones) {
        table_.remove(id, place);
      } else if (block.kind == BlockKind::kRows) {
        load_row(block, id, place, i);
      } else {
        load_candidate(block, id, place, i);
      }
    }
  }

  // Returns the place of an id that belongs into this file, behind the one before.
  Place check_id(const Block& block, std::uint64_t id) {
    if (!table_.is_in_range(id)) fail(block, id, "lies out of the table's range");
    const Place place = table_.place(id);
    if (place.bucket < header().first_bucket() || place.bucket >= header().last_bucket()) {
      fail(block, id, "does not belong to this shard");
    }
    const std::pair order(place.bucket, id);
    if (has_last_ && order <= last_) fail(block, id, "is out of order");
    last_ = order;
    has_last_ = true;
    return place;
  }

  void load_row(const Block& block, std::uint64_t id, Place place, std::size_t i) {
    const RowLayout& layout = table_.layout();
    Row row = table_.find(id, place);
    if (!row) row = table_.add(id, place);
    const RowBlock columns(block, layout.dim);
    RowHeader& row_header = row.header();
    row_header.last_seen = load<std::uint32_t>(columns.last_seen + 4 * i);
    row_header.show = load<float>(columns.shows + 4 * i);
    row_header.click = load<float>(columns.clicks + 4 * i);
    row_header.version = table_.version();
    std::memcpy(row.weights(), columns.weights + 4 * layout.dim * i, 4 * layout.dim);
    if (layout.state_size == 0) return;
    std::memcpy(row.state(layout).data(), columns.states + 4 * layout.state_size * i,
                4 * layout.state_size);
  }

  void load_candidate(const Block& block, std::uint64_t id, Place place, std::size_t i) {
    const std::byte* content = block.content.data();
    const std::size_t size = block.num_entries;
    const Candidate candidate{.id = id,
                              .last_seen = load<std::uint32_t>(content + 8 * size + 4 * i),
                              .show = load<std::uint16_t>(content + 12 * size + 2 * i),
                              .click = load<std::uint16_t>(content + 14 * size + 2 * i)};
    if (candidate.show == 0 || table_.find(id, place)) fail(block, id, "cannot be a candidate");
    table_.buckets()[place.bucket].candidates.insert(candidate);
  }

  Table& table_;
  BlockReader& blocks_;
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
    BlockReader blocks(directory / shard_name(shard, num_shards));
    ShardHeader expected = header;
    expected.shard = shard;
    if (blocks.header() != expected) {
      throw FormatFault(blocks.file().path(),
                        "does not belong to the snapshot of the other shards");
    }
    loaded[s] = ShardReader(table, blocks).load_all();
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
