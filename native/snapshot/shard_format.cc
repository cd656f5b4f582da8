// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/shard_format.h"

#include <cstdio>
#include <vector>

#include "fleetrec/snapshot/crc32c.h"

namespace fleetrec {
namespace {

std::string text_at(const std::byte* at, std::size_t num_bytes) {
  return {reinterpret_cast<const char*>(at), num_bytes};
}

void check_header(const InputFile& file, const ShardHeader& header, const std::byte* raw) {
  const auto kind = static_cast<std::uint32_t>(header.kind);
  if (kind > 1) file.fail(16, "expected kind 0 or 1, got " + std::to_string(kind));
  if (header.num_shards == 0 || header.num_shards > kMaxShards ||
      header.shard >= header.num_shards) {
    file.fail(20, "impossible shard " + std::to_string(header.shard) + " of " +
                      std::to_string(header.num_shards));
  }
  if (load<std::uint32_t>(raw + 28) != header.first_bucket() ||
      load<std::uint32_t>(raw + 32) != header.last_bucket()) {
    file.fail(28, "the buckets are not those of shard " + std::to_string(header.shard) + " of " +
                      std::to_string(header.num_shards));
  }
  if (header.version == 0 || header.version == ~std::uint32_t{0} ||
      header.version <= header.parent.version) {
    file.fail(44, "impossible version " + std::to_string(header.version) + " after " +
                      std::to_string(header.parent.version));
  }
  const bool has_parent = header.parent.version != 0;
  if (has_parent != (header.kind == SnapshotKind::kDelta)) {
    file.fail(48, "a delta has a parent and a base has none");
  }
  if (load<std::uint32_t>(raw + 84) != 0) file.fail(84, "expected 0");
}

}  // namespace

ShardHeader describe_table(const Table& table) {
  ShardHeader header{};
  header.dim = static_cast<std::uint32_t>(table.layout().dim);
  header.state_size = static_cast<std::uint32_t>(table.layout().state_size);
  header.id_limit = table.options().num_rows.value_or(kAnyId);
  header.table = table.options().name;
  header.optimizer = table.optimizer().name();
  return header;
}

void put_header(ByteSink& sink, const ShardHeader& header) {
  const std::size_t begin = sink.size();
  const auto name_bytes = static_cast<std::uint32_t>(header.table.size());
  const auto optimizer_bytes = static_cast<std::uint32_t>(header.optimizer.size());
  sink.put_text(kSnapshotMagic);
  sink.put(kSnapshotFormat);
  sink.put(static_cast<std::uint32_t>(kFixedHeaderBytes + 4) + name_bytes + optimizer_bytes);
  sink.put(header.kind);
  sink.put(header.shard);
  sink.put(header.num_shards);
  sink.put(header.first_bucket());
  sink.put(header.last_bucket());
  sink.put(header.dim);
  sink.put(header.state_size);
  sink.put(header.version);
  sink.put(header.parent.version);
  sink.put(name_bytes);
  sink.put(header.parent.fingerprint);
  sink.put(header.id_limit);
  sink.put(header.lsn);
  sink.put(optimizer_bytes);
  sink.put(std::uint32_t{0});
  sink.put_text(header.table);
  sink.put_text(header.optimizer);
  sink.put(crc32c(0, sink.bytes().subspan(begin)));
}

ReadHeader read_header(const InputFile& file) {
  std::vector<std::byte> raw(kFixedHeaderBytes);
  file.read(0, raw);
  if (text_at(raw.data(), 8) != kSnapshotMagic) file.fail(0, "is no snapshot of a table");
  if (const auto format = load<std::uint32_t>(&raw[8]); format != kSnapshotFormat) {
    file.fail(8, "written in format " + std::to_string(format) + ", this version reads format " +
                     std::to_string(kSnapshotFormat));
  }
  const std::size_t name_bytes = load<std::uint32_t>(&raw[52]);
  const std::size_t optimizer_bytes = load<std::uint32_t>(&raw[80]);
  const std::size_t num_bytes = load<std::uint32_t>(&raw[12]);
  if (name_bytes > kMaxNameBytes || optimizer_bytes > kMaxNameBytes ||
      num_bytes != kFixedHeaderBytes + name_bytes + optimizer_bytes + 4) {
    file.fail(12, "damaged: the lengths of the header do not fit together");
  }
  raw.resize(num_bytes);
  file.read(0, raw);
  const auto crc = load<std::uint32_t>(&raw[num_bytes - 4]);
  if (crc32c(0, std::span(raw).first(num_bytes - 4)) != crc) {
    file.fail(num_bytes - 4, "damaged: the checksum of the header is wrong");
  }
  const std::byte* at = raw.data();
  ShardHeader header{
      .kind = load<SnapshotKind>(at + 16),
      .shard = load<std::uint32_t>(at + 20),
      .num_shards = load<std::uint32_t>(at + 24),
      .dim = load<std::uint32_t>(at + 36),
      .state_size = load<std::uint32_t>(at + 40),
      .parent = {load<std::uint32_t>(at + 48), load<std::uint64_t>(at + 56)},
      .version = load<std::uint32_t>(at + 44),
      .id_limit = load<std::uint64_t>(at + 64),
      .lsn = load<std::uint64_t>(at + 72),
      .table = text_at(at + kFixedHeaderBytes, name_bytes),
      .optimizer = text_at(at + kFixedHeaderBytes + name_bytes, optimizer_bytes),
  };
  check_header(file, header, at);
  return {std::move(header), num_bytes, crc};
}

std::uint32_t crc_of_crc(std::uint32_t so_far, std::uint32_t part) {
  return crc32c(so_far, std::as_bytes(std::span(&part, 1)));
}

std::uint32_t crc_of_counts(std::uint32_t so_far, const ShardCounts& counts) {
  ByteSink sink;
  sink.put(counts.tombstones);
  sink.put(counts.rows);
  sink.put(counts.candidates);
  return crc32c(so_far, sink.bytes());
}

std::uint64_t add_to_fingerprint(std::uint64_t fingerprint, std::uint32_t file_crc) {
  return mix64(fingerprint + file_crc + 0x9E3779B97F4A7C15u);
}

std::string shard_name(std::uint32_t shard, std::uint32_t num_shards) {
  char name[32];
  std::snprintf(name, sizeof name, "%05u-of-%05u.snap", shard, num_shards);
  return name;
}

}  // namespace fleetrec
