// SPDX-License-Identifier: Apache-2.0
// Tables to files and back: bases, and deltas that hold what changed since.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "fleetrec/snapshot/shard_format.h"
#include "fleetrec/table/table.h"

namespace fleetrec {

struct SnapshotTarget {
  std::filesystem::path directory;  // exists, and holds no snapshot
  SnapshotKind kind = SnapshotKind::kBase;
  std::uint32_t num_shards = 1;
  std::uint64_t lsn = 0;  // last record of the log that the table contains
  bool sync = false;      // wait until the files are on the disk
  // The shards that this process writes; others write the rest of them.
  std::uint32_t first_shard = 0;
  std::optional<std::uint32_t> last_shard = std::nullopt;  // that of all
};

struct SnapshotStats {
  ShardCounts counts;
  std::uint64_t num_bytes = 0;
  std::uint32_t version = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t lsn = 0;
  std::vector<std::uint32_t> crcs;  // of the files
};

// A line in the history of a table: what changes behind it belongs to the next delta.
class Cut {
 public:
  // Notes where the table stands and raises its version; first to `least`, so that the parts of a
  // table in several processes can be cut under one number.
  explicit Cut(Table& table, std::uint32_t least = 0);

  const CutMark& parent() const { return parent_; }
  std::uint32_t version() const { return version_; }
  // Throws std::logic_error if the table was cleared, or another cut committed, since.
  void check_current(const Table& table) const;

 private:
  CutMark parent_;
  std::uint32_t version_;
  std::uint64_t num_clears_;
  std::vector<std::size_t> num_tombstones_;  // by bucket
  std::optional<std::uint64_t> fingerprint_;

  friend void commit_cut(Table& table, const Cut& cut, std::optional<std::uint64_t> fingerprint);
  friend SnapshotStats write_snapshot(Table& table, Cut& cut, const SnapshotTarget& target);
};

// Writes the table as it is now; it is locked meanwhile. Throws WriteFault, and removes what it
// wrote; std::logic_error for a delta without a parent. Changes nothing in the table.
SnapshotStats write_snapshot(Table& table, Cut& cut, const SnapshotTarget& target);

// Makes what was written the parent of the next delta, and forgets the tombstones from before the
// cut. To be called when the files are published; with the fingerprint of all files, if other
// processes wrote some of them.
void commit_cut(Table& table, const Cut& cut,
                std::optional<std::uint64_t> fingerprint = std::nullopt);

// Replaces the table by a base and the deltas that follow it. Throws FormatFault for files that are
// damaged, missing, of another table or out of order; then the table is empty.
SnapshotStats read_snapshot(Table& table, std::span<const std::filesystem::path> directories);

}  // namespace fleetrec
