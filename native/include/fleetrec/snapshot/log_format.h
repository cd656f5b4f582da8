// SPDX-License-Identifier: Apache-2.0
// The parts of a log; docs/formats/table-log.md describes every byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleetrec/snapshot/bytes.h"
#include "fleetrec/snapshot/file.h"

namespace fleetrec {

enum class OperationKind : std::uint32_t { kImpressions = 1, kPush = 2, kEviction = 3 };

inline constexpr std::string_view kLogMagic = "FRECTLOG";
inline constexpr std::uint32_t kLogFormat = 1;
inline constexpr std::size_t kLogHeaderBytes = 32;   // without tables and CRC
inline constexpr std::size_t kFrameBytes = 8;        // before the body of a record
inline constexpr std::size_t kRecordHeadBytes = 32;  // of the body
inline constexpr std::size_t kOperationHeadBytes = 16;
inline constexpr std::size_t kMaxBodyBytes = std::size_t{1} << 30;

struct LogTable {
  std::string name;
  std::uint32_t dim;

  bool operator==(const LogTable&) const = default;
};

struct LogHeader {
  std::uint64_t first_lsn;
  std::vector<LogTable> tables;
};

// Who asked for a record: a request is done once.
struct Request {
  std::uint32_t worker = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t sequence = 0;
};

// Writes the columns of an operation where a record wants them, at any alignment.
using FillColumns = std::function<void(std::byte* ids, std::byte* payload)>;

using Pieces = std::vector<std::span<const std::byte>>;

// Views into memory of the caller, at any alignment; or, for writing, a function that fills, or
// columns that lie in pieces.
struct Operation {
  OperationKind kind;
  std::uint32_t table = 0;
  std::uint32_t num_entries = 0;
  std::uint32_t now = 0;               // of impressions
  float lr = 0.0f;                     // of a push
  const std::byte* ids = nullptr;      // u64
  const std::byte* payload = nullptr;  // clicks u8, or gradients f32
  FillColumns fill = nullptr;          // if set, `ids` and `payload` are not looked at
  Pieces pieces = {};                  // the same; ids, then payload
};

struct Record {
  std::uint64_t lsn = 0;
  Request request;
  std::vector<Operation> operations;
};

void put_log_header(ByteSink& sink, const LogHeader& header);

// Returns the header and where it ends. Throws FormatFault.
struct ReadLogHeader {
  LogHeader header;
  std::uint64_t end;
};
ReadLogHeader read_log_header(const InputFile& file);

// Bytes behind the ids, per entry.
std::size_t payload_bytes(OperationKind kind, std::uint32_t dim);

// Appends the record with its frame, or throws and appends nothing; std::invalid_argument if it
// cannot be written.
void put_record(ByteSink& sink, const Record& record, std::span<const LogTable> tables);

// Length of the record's body. Throws std::invalid_argument if it cannot be written.
std::size_t body_bytes(const Record& record, std::span<const LogTable> tables);

// Returns the body in pieces, of a record that can be written: columns stay where they are, the
// rest is made in `scratch`.
Pieces lay_out_body(ByteSink& scratch, const Record& record, std::span<const LogTable> tables);

// Throws FormatFault for a body that is sound but impossible; `offset` is that of its frame.
Record decode_record(const InputFile& file, std::uint64_t offset, std::span<const std::byte> body,
                     std::span<const LogTable> tables);

std::uint32_t crc_of_record(std::span<const std::byte> body);

// What a record begins with.
std::array<std::byte, kFrameBytes> frame_of(std::uint32_t num_bytes, std::uint32_t crc);

}  // namespace fleetrec
