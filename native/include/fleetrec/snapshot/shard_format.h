// SPDX-License-Identifier: Apache-2.0
// The parts of a shard file of a snapshot; docs/formats/table-snapshot.md describes every byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fleetrec/snapshot/bytes.h"
#include "fleetrec/snapshot/file.h"
#include "fleetrec/table/table.h"

namespace fleetrec {

enum class SnapshotKind : std::uint32_t { kBase = 0, kDelta = 1 };
enum class BlockKind : std::uint32_t { kTombstones = 1, kRows = 2, kCandidates = 3, kEnd = 4 };

inline constexpr std::string_view kSnapshotMagic = "FRECSNAP";
inline constexpr std::string_view kSnapshotEnd = "FRECSEND";
inline constexpr std::uint32_t kSnapshotFormat = 1;
inline constexpr std::size_t kFixedHeaderBytes = 88;
inline constexpr std::size_t kMaxNameBytes = 65535;
inline constexpr std::size_t kBlockHeadBytes = 16;
inline constexpr std::size_t kFooterBytes = 40;
inline constexpr std::uint64_t kAnyId = ~std::uint64_t{0};
inline constexpr std::size_t kMaxShards = kNumBuckets;

struct ShardHeader {
  SnapshotKind kind;
  std::uint32_t shard;
  std::uint32_t num_shards;
  std::uint32_t dim;
  std::uint32_t state_size;
  CutMark parent;         // nothing in a base
  std::uint32_t version;  // of the cut
  std::uint64_t id_limit;
  std::uint64_t lsn;
  std::string table;
  std::string optimizer;

  std::uint32_t first_bucket() const { return kNumBuckets * shard / num_shards; }
  std::uint32_t last_bucket() const { return kNumBuckets * (shard + 1) / num_shards; }

  bool operator==(const ShardHeader&) const = default;
};

// What the header of a table's file says, but for kind, shard, cut and lsn.
ShardHeader describe_table(const Table& table);

void put_header(ByteSink& sink, const ShardHeader& header);

// Returns the header and where it ends. Throws FormatFault if it is damaged or impossible.
struct ReadHeader {
  ShardHeader header;
  std::uint64_t end;
  std::uint32_t crc;
};
ReadHeader read_header(const InputFile& file);

struct ShardCounts {
  std::uint64_t tombstones = 0;
  std::uint64_t rows = 0;
  std::uint64_t candidates = 0;

  std::uint64_t& of(BlockKind kind) {
    if (kind == BlockKind::kTombstones) return tombstones;
    return kind == BlockKind::kRows ? rows : candidates;
  }
};

inline std::size_t entry_bytes(BlockKind kind, const RowLayout& layout) {
  if (kind == BlockKind::kTombstones) return 8;
  if (kind == BlockKind::kCandidates) return 16;
  return 20 + 4 * (layout.dim + layout.state_size);
}

// Entries of a full block.
inline std::size_t max_entries(BlockKind kind, const RowLayout& layout) {
  constexpr std::size_t kMaxEntries = 4096;
  constexpr std::size_t kMaxBytes = std::size_t{1} << 24;
  return std::clamp<std::size_t>(kMaxBytes / entry_bytes(kind, layout), 1, kMaxEntries);
}

// The CRC of a file goes over the CRCs of its parts.
std::uint32_t crc_of_crc(std::uint32_t so_far, std::uint32_t part);
std::uint32_t crc_of_counts(std::uint32_t so_far, const ShardCounts& counts);

std::uint64_t add_to_fingerprint(std::uint64_t fingerprint, std::uint32_t file_crc);

std::string shard_name(std::uint32_t shard, std::uint32_t num_shards);

}  // namespace fleetrec
