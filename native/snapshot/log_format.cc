// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/log_format.h"

#include <cstring>

#include "fleetrec/snapshot/crc32c.h"

namespace fleetrec {
namespace {

constexpr std::size_t kMaxLogHeaderBytes = std::size_t{1} << 24;

bool is_known(OperationKind kind) {
  return kind == OperationKind::kImpressions || kind == OperationKind::kPush ||
         kind == OperationKind::kEviction;
}

// Returns the tables of a header whose CRC is right.
std::vector<LogTable> decode_tables(const InputFile& file, std::span<const std::byte> raw) {
  const auto num_tables = load<std::uint32_t>(&raw[24]);
  const std::size_t end = raw.size() - 4;
  std::size_t at = kLogHeaderBytes;
  std::vector<LogTable> tables;
  for (std::uint32_t t = 0; t < num_tables; ++t) {
    if (end - at < 8) file.fail(at, "the header ends within its tables");
    const auto dim = load<std::uint32_t>(&raw[at]);
    const std::size_t name_bytes = load<std::uint32_t>(&raw[at + 4]);
    at += 8;
    if (end - at < name_bytes) file.fail(at, "the header ends within its tables");
    tables.push_back({std::string(reinterpret_cast<const char*>(&raw[at]), name_bytes), dim});
    at += name_bytes;
  }
  if (at != end) file.fail(at, "the header is longer than its tables");
  return tables;
}

void check_operation(const Operation& operation, std::span<const LogTable> tables) {
  if (!is_known(operation.kind)) {
    throw std::invalid_argument("no operation is of kind " +
                                std::to_string(static_cast<std::uint32_t>(operation.kind)));
  }
  if (operation.table >= tables.size()) {
    throw std::invalid_argument("there is no table " + std::to_string(operation.table) +
                                " in a log of " + std::to_string(tables.size()));
  }
}

void put_record_head(ByteSink& sink, const Record& record, std::size_t num_tables) {
  sink.put(record.lsn);
  sink.put(record.request.worker);
  sink.put(record.request.incarnation);
  sink.put(record.request.sequence);
  sink.put(static_cast<std::uint32_t>(num_tables));
  sink.put(static_cast<std::uint32_t>(record.operations.size()));
}

void put_operation_head(ByteSink& sink, const Operation& operation) {
  sink.put(operation.kind);
  sink.put(operation.table);
  sink.put(operation.num_entries);
  if (operation.kind == OperationKind::kPush) {
    sink.put(operation.lr);
  } else {
    sink.put(operation.now);
  }
}

// Where the columns of an operation lie, unless they have to be filled.
Pieces columns_of(const Operation& operation, std::uint32_t dim) {
  if (operation.fill || operation.num_entries == 0) return {};
  if (!operation.pieces.empty()) return operation.pieces;
  const std::size_t width = payload_bytes(operation.kind, dim);
  Pieces columns{{operation.ids, std::size_t{8} * operation.num_entries}};
  if (width != 0) columns.emplace_back(operation.payload, width * operation.num_entries);
  return columns;
}

void fill_columns(ByteSink& sink, const Operation& operation, std::uint32_t dim) {
  const std::size_t id_bytes = std::size_t{8} * operation.num_entries;
  const std::size_t width = payload_bytes(operation.kind, dim);
  std::byte* columns = sink.extend(id_bytes + width * operation.num_entries);
  operation.fill(columns, columns + id_bytes);
}

}  // namespace

void put_log_header(ByteSink& sink, const LogHeader& header) {
  const std::size_t begin = sink.size();
  sink.put_text(kLogMagic);
  sink.put(kLogFormat);
  sink.put(std::uint32_t{0});
  sink.put(header.first_lsn);
  sink.put(static_cast<std::uint32_t>(header.tables.size()));
  sink.put(std::uint32_t{0});
  for (const LogTable& table : header.tables) {
    sink.put(table.dim);
    sink.put(static_cast<std::uint32_t>(table.name.size()));
    sink.put_text(table.name);
  }
  const std::size_t num_bytes = sink.size() - begin + 4;
  if (num_bytes > kMaxLogHeaderBytes) throw std::invalid_argument("a log of too many tables");
  sink.set(begin + 12, static_cast<std::uint32_t>(num_bytes));
  sink.put(crc32c(0, sink.bytes().subspan(begin)));
}

ReadLogHeader read_log_header(const InputFile& file) {
  std::vector<std::byte> raw(kLogHeaderBytes);
  file.read(0, raw);
  if (std::memcmp(raw.data(), kLogMagic.data(), kLogMagic.size()) != 0) {
    file.fail(0, "is no log of tables");
  }
  if (const auto format = load<std::uint32_t>(&raw[8]); format != kLogFormat) {
    file.fail(8, "written in format " + std::to_string(format) + ", this version reads format " +
                     std::to_string(kLogFormat));
  }
  const std::size_t num_bytes = load<std::uint32_t>(&raw[12]);
  if (num_bytes < kLogHeaderBytes + 4 || num_bytes > kMaxLogHeaderBytes ||
      num_bytes > file.num_bytes()) {
    file.fail(12, "damaged: a header of " + std::to_string(num_bytes) + " bytes");
  }
  raw.resize(num_bytes);
  file.read(0, raw);
  if (crc32c(0, std::span(raw).first(num_bytes - 4)) != load<std::uint32_t>(&raw[num_bytes - 4])) {
    file.fail(num_bytes - 4, "damaged: the checksum of the header is wrong");
  }
  const auto first_lsn = load<std::uint64_t>(&raw[16]);
  if (first_lsn == 0 || load<std::uint32_t>(&raw[28]) != 0) file.fail(16, "impossible header");
  return {{first_lsn, decode_tables(file, raw)}, num_bytes};
}

std::size_t body_bytes(const Record& record, std::span<const LogTable> tables) {
  std::size_t num_bytes = kRecordHeadBytes;
  for (const Operation& operation : record.operations) {
    check_operation(operation, tables);
    const std::size_t entry = 8 + payload_bytes(operation.kind, tables[operation.table].dim);
    num_bytes += kOperationHeadBytes + operation.num_entries * entry;
  }
  if (num_bytes > kMaxBodyBytes) {
    throw std::invalid_argument("a record holds at most " + std::to_string(kMaxBodyBytes) +
                                " bytes, got " + std::to_string(num_bytes));
  }
  return num_bytes;
}

std::size_t payload_bytes(OperationKind kind, std::uint32_t dim) {
  if (kind == OperationKind::kImpressions) return 1;
  return kind == OperationKind::kPush ? sizeof(float) * dim : 0;
}

void put_record(ByteSink& sink, const Record& record, std::span<const LogTable> tables) {
  const std::size_t num_bytes = body_bytes(record, tables);
  const std::size_t begin = sink.size();
  sink.extend(kFrameBytes + num_bytes);  // at once: filling cannot run out of memory half-way
  sink.cut(begin);
  try {
    sink.put(static_cast<std::uint32_t>(num_bytes));
    sink.put(std::uint32_t{0});
    put_record_head(sink, record, tables.size());
    for (const Operation& operation : record.operations) {
      const std::uint32_t dim = tables[operation.table].dim;
      put_operation_head(sink, operation);
      if (operation.fill) fill_columns(sink, operation, dim);
      for (const auto& piece : columns_of(operation, dim)) sink.put_all(piece);
    }
  } catch (...) {
    sink.cut(begin);
    throw;
  }
  sink.set(begin + 4, crc_of_record(sink.bytes().subspan(begin + kFrameBytes)));
}

Pieces lay_out_body(ByteSink& scratch, const Record& record, std::span<const LogTable> tables) {
  std::size_t num_made = kRecordHeadBytes;
  for (const Operation& operation : record.operations) {
    const std::size_t entry = 8 + payload_bytes(operation.kind, tables[operation.table].dim);
    num_made += kOperationHeadBytes + (operation.fill ? operation.num_entries * entry : 0);
  }
  scratch.clear();
  scratch.extend(num_made);  // at once: what is pointed at does not move
  scratch.clear();
  Pieces pieces;
  std::size_t begin = 0;
  const auto end_piece = [&] {
    pieces.push_back(scratch.bytes().subspan(begin));
    begin = scratch.size();
  };
  put_record_head(scratch, record, tables.size());
  for (const Operation& operation : record.operations) {
    const std::uint32_t dim = tables[operation.table].dim;
    put_operation_head(scratch, operation);
    if (operation.fill) fill_columns(scratch, operation, dim);
    const Pieces columns = columns_of(operation, dim);
    if (columns.empty()) continue;
    end_piece();
    pieces.insert(pieces.end(), columns.begin(), columns.end());
  }
  end_piece();
  return pieces;
}

Record decode_record(const InputFile& file, std::uint64_t offset, std::span<const std::byte> body,
                     std::span<const LogTable> tables) {
  const std::byte* at = body.data();
  Record record{.lsn = load<std::uint64_t>(at),
                .request = {load<std::uint32_t>(at + 8), load<std::uint32_t>(at + 12),
                            load<std::uint64_t>(at + 16)},
                .operations = {}};
  const auto num_operations = load<std::uint32_t>(at + 28);
  if (load<std::uint32_t>(at + 24) != tables.size()) file.fail(offset, "of another set of tables");
  std::size_t used = kRecordHeadBytes;
  for (std::uint32_t o = 0; o < num_operations; ++o) {
    if (body.size() - used < kOperationHeadBytes) file.fail(offset, "ends within an operation");
    const std::byte* head = at + used;
    Operation operation{.kind = load<OperationKind>(head),
                        .table = load<std::uint32_t>(head + 4),
                        .num_entries = load<std::uint32_t>(head + 8),
                        .now = load<std::uint32_t>(head + 12),
                        .lr = load<float>(head + 12),
                        .ids = head + kOperationHeadBytes};
    try {
      check_operation(operation, tables);
    } catch (const std::invalid_argument& fault) {
      file.fail(offset, fault.what());
    }
    used += kOperationHeadBytes;
    const std::size_t width = 8 + payload_bytes(operation.kind, tables[operation.table].dim);
    if ((body.size() - used) / width < operation.num_entries) {
      file.fail(offset, "ends within an operation");
    }
    operation.payload = operation.ids + std::size_t{8} * operation.num_entries;
    used += width * operation.num_entries;
    record.operations.push_back(operation);
  }
  if (used != body.size()) file.fail(offset, "is longer than its operations");
  return record;
}

std::uint32_t crc_of_record(std::span<const std::byte> body) {
  const auto num_bytes = static_cast<std::uint32_t>(body.size());
  return crc32c(crc32c(0, std::as_bytes(std::span(&num_bytes, 1))), body);
}

std::array<std::byte, kFrameBytes> frame_of(std::uint32_t num_bytes, std::uint32_t crc) {
  std::array<std::byte, kFrameBytes> frame;
  store(frame.data(), num_bytes);
  store(frame.data() + 4, crc);
  return frame;
}

}  // namespace fleetrec
