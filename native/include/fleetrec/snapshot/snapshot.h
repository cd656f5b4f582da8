// SPDX-License-Identifier: Apache-2.0
// Tables to files and back: bases, and deltas that hold what changed since.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fleetrec/snapshot/shard_format.h"
#include "fleetrec/table/cut_content.h"
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
  std::size_t num_threads = 0;  // that write beside training; 0: those of parallel_for
};

struct SnapshotStats {
  ShardCounts counts;
  std::uint64_t num_bytes = 0;
  std::uint32_t version = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t lsn = 0;
  std::vector<std::uint32_t> crcs;  // of the files
};

// What a table held when it was cut.
struct CutStats {
  std::size_t num_rows = 0;
  std::size_t num_candidates = 0;
  TableCounts counts;
};

// A line in the history of a table: what changes behind it belongs to the next delta.
//
// A cut fixes the content of the table without copying it: whatever other threads do to the table
// from here on, `write_snapshot` writes the table as it was here, bit for bit. Until that has
// happened, or the cut is released, a row is copied before it first changes, once for every such
// cut. The table must outlive the cut.
class Cut {
 public:
  // Notes where the table stands and raises its version; first to `least`, so that the parts of a
  // table in several processes can be cut under one number.
  explicit Cut(Table& table, std::uint32_t least = 0);
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;
  ~Cut();

  const CutMark& parent() const { return parent_; }
  std::uint32_t version() const { return version_; }
  const CutStats& stats() const { return stats_; }

  // Gives up the content, unless it is written by now; a write that is under way stops and throws.
  // A cut that was written can still be committed.
  void release();
  bool is_released() const { return is_released_; }

 private:
  void let_go();

  Table& table_;
  CutMark parent_;
  std::uint32_t version_;
  std::uint64_t num_clears_;
  CutStats stats_;
  std::atomic<bool> is_released_ = false;
  std::vector<std::size_t> num_tombstones_;  // by bucket
  std::mutex mutex_;                         // of what follows; taken before that of the table
  std::shared_ptr<CutContent> content_;
  std::optional<std::uint64_t> fingerprint_;

  friend void commit_cut(Table& table, Cut& cut, std::optional<std::uint64_t> fingerprint);
  friend SnapshotStats write_snapshot(Table& table, Cut& cut, const SnapshotTarget& target);
};

// Writes the table as it was at the cut, once; other threads may change it meanwhile. Throws
// WriteFault, and removes what it wrote; std::logic_error for a delta without a parent, or one
// whose parent is no longer that of the table; std::runtime_error if the cut is released meanwhile.
// Afterwards, and also after a failure, the cut is released.
SnapshotStats write_snapshot(Table& table, Cut& cut, const SnapshotTarget& target);

// Makes what was written the parent of the next delta, and forgets the tombstones from before the
// cut. To be called when the files are published; with the fingerprint of all files, if other
// processes wrote some of them, or if the process that this one replaces wrote this cut. Throws
// std::logic_error if the table was cleared, or another cut committed, since the cut.
void commit_cut(Table& table, Cut& cut, std::optional<std::uint64_t> fingerprint = std::nullopt);

// Replaces the table by a base and the deltas that follow it. Throws FormatFault for files that are
// damaged, missing, of another table or out of order; then the table is empty.
SnapshotStats read_snapshot(Table& table, std::span<const std::filesystem::path> directories);

}  // namespace fleetrec
