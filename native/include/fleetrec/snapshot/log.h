// SPDX-License-Identifier: Apache-2.0
// A log of what happened to tables, written before it is acknowledged and replayed after a crash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fleetrec/snapshot/log_format.h"
#include "fleetrec/table/table.h"

namespace fleetrec {

enum class Durability {
  kProcess,  // survives the process: the operating system has it
  kDisk,     // survives the machine: the disk has it
};

// One segment that is being written. Threads may share it; small records committed together cost
// one write, and those that wait for the same disk wait once. A large record goes straight from
// where it lies to the file, unless others wait.
class LogWriter {
 public:
  // Creates the file. Throws WriteFault.
  LogWriter(const std::filesystem::path& path, LogHeader header);

  // Returns the number that the record got; the one in `record` is not looked at.
  std::uint64_t append(Record record);

  // Returns the last number that is safe now: at least that of every record appended before the
  // call. Throws WriteFault; the records then wait for the next commit, or the log is broken.
  std::uint64_t commit(Durability level);

  std::uint64_t last_lsn() const;
  const std::vector<LogTable>& tables() const { return tables_; }

 private:
  bool try_write_through(Record& record);
  void write_through(const Pieces& body);
  void flush();
  void check_sound() const;

  const std::vector<LogTable> tables_;
  OutputFile file_;

  mutable std::mutex buffer_mutex_;  // of these two
  ByteSink buffer_;
  std::uint64_t next_lsn_;

  std::mutex file_mutex_;  // of the file and what follows; taken first
  ByteSink writing_;       // taken from the buffer, not yet in the file
  ByteSink scratch_;       // of the record that is written through
  std::uint64_t writing_lsn_;
  std::uint64_t written_lsn_;
  std::uint64_t synced_lsn_;
  bool has_synced_name_ = false;
  bool is_broken_ = false;
};

enum class TornTail { kKeep, kTruncate };

struct TornPlace {
  std::filesystem::path path;
  std::uint64_t offset;
  std::string reason;
};

struct ReplayStats {
  std::uint64_t last_lsn = 0;  // of the tables now
  std::uint64_t num_applied = 0;
  std::optional<TornPlace> torn;
  std::vector<Request> last_requests;  // by worker, that with the highest incarnation and sequence
};

// Applies the records behind `after_lsn`. Throws FormatFault for a damaged log, or one of other
// tables, before anything has changed; for one that does not follow the tables it empties them.
ReplayStats replay_log(std::span<const std::shared_ptr<Table>> tables,
                       std::span<const std::filesystem::path> segments, std::uint64_t after_lsn,
                       TornTail torn_tail);

// Removes the segments whose records are all numbered up to `lsn`, the oldest first, and returns
// them; of segments in order, the last stays. Throws FormatFault, before anything is removed, if
// they cannot be read or are out of order, and WriteFault.
std::vector<std::filesystem::path> drop_segments(std::span<const std::filesystem::path> segments,
                                                 std::uint64_t lsn);

}  // namespace fleetrec
