// SPDX-License-Identifier: Apache-2.0
// The records of one segment, one after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fleetrec/snapshot/log_format.h"

namespace fleetrec {

class SegmentReader {
 public:
  explicit SegmentReader(const std::filesystem::path& path);

  const LogHeader& header() const { return head_.header; }
  const InputFile& file() const { return file_; }

  // Returns the next record, valid until the next call; nullptr at the end or at a torn tail.
  // Throws FormatFault for damage that is none.
  const Record* next();

  // Where the records end: the end of the file unless the tail is torn.
  std::uint64_t offset() const { return offset_; }
  std::uint64_t next_lsn() const { return next_lsn_; }
  // Why the record at `offset` is none; empty if the file ends there.
  const std::string& torn_reason() const { return torn_reason_; }

 private:
  // Reads the body of a record into `body_`; returns what is wrong, or nothing.
  std::string try_read(std::uint64_t offset);
  std::optional<std::uint64_t> find_sound_record(std::uint64_t offset);
  bool is_plausible(const std::byte* frame, std::uint64_t num_bytes_left) const;

  InputFile file_;
  ReadLogHeader head_;
  std::uint64_t offset_;
  std::uint64_t next_lsn_;
  std::vector<std::byte> body_;
  Record record_;
  std::string torn_reason_;
};

}  // namespace fleetrec
