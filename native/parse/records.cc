// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/records.h"

#include <span>

#include "fleetrec/snapshot/bytes.h"
#include "fleetrec/snapshot/crc32c.h"

namespace fleetrec {
namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kFooter = 4;

const std::byte* at(std::string_view bytes, std::size_t offset) {
  return reinterpret_cast<const std::byte*>(bytes.data() + offset);
}

// Stored rotated and shifted: bytes that contain their own checksum would make a bad one.
std::uint32_t masked_crc(std::string_view bytes, std::size_t offset, std::size_t num_bytes) {
  const std::uint32_t crc = crc32c(0, std::span(at(bytes, offset), num_bytes));
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

bool has_header(std::string_view bytes, std::size_t offset) {
  return load<std::uint32_t>(at(bytes, offset + 8)) == masked_crc(bytes, offset, 8);
}

std::uint64_t length_at(std::string_view bytes, std::size_t offset) {
  return load<std::uint64_t>(at(bytes, offset));
}

// Whether a record of this length would end within the bytes.
bool is_whole(std::string_view bytes, std::size_t offset, std::uint64_t length) {
  const std::size_t num_left = bytes.size() - offset;
  return num_left >= kHeader + kFooter && length <= num_left - kHeader - kFooter;
}

bool has_footer(std::string_view bytes, std::size_t offset, std::size_t length) {
  return load<std::uint32_t>(at(bytes, offset + kHeader + length)) ==
         masked_crc(bytes, offset + kHeader, length);
}

constexpr const char* kBadLength = "the length of the record does not fit its checksum";

}  // namespace

RecordCut cut_records(std::string_view bytes, std::size_t begin, std::size_t max_records) {
  RecordCut cut{begin, 0};
  while (cut.num_records < max_records && bytes.size() - cut.end >= kHeader) {
    if (!has_header(bytes, cut.end)) throw RecordFault({0, cut.num_records, cut.end}, kBadLength);
    const std::uint64_t length = length_at(bytes, cut.end);
    if (!is_whole(bytes, cut.end, length)) break;
    cut.end += kHeader + static_cast<std::size_t>(length) + kFooter;
    ++cut.num_records;
  }
  return cut;
}

std::size_t count_records(std::string_view bytes) {
  std::size_t num_records = 0;
  for (std::size_t offset = 0; bytes.size() - offset >= kHeader && has_header(bytes, offset);) {
    const std::uint64_t length = length_at(bytes, offset);
    if (!is_whole(bytes, offset, length)) break;
    offset += kHeader + static_cast<std::size_t>(length) + kFooter;
    ++num_records;
  }
  return num_records;
}

std::optional<std::size_t> find_record(std::string_view bytes, std::size_t begin) {
  for (std::size_t offset = begin; bytes.size() - offset >= kHeader + kFooter; ++offset) {
    if (!has_header(bytes, offset)) continue;
    const std::uint64_t length = length_at(bytes, offset);
    if (is_whole(bytes, offset, length) &&
        has_footer(bytes, offset, static_cast<std::size_t>(length))) {
      return offset;
    }
  }
  return std::nullopt;
}

namespace record_internal {

std::string_view checked_record(std::string_view bytes, const RecordFault::Place& place) {
  const std::size_t offset = place.offset;
  if (bytes.size() - offset < kHeader) throw RecordFault(place, "the record is cut off");
  if (!has_header(bytes, offset)) throw RecordFault(place, kBadLength);
  if (!is_whole(bytes, offset, length_at(bytes, offset))) {
    throw RecordFault(place, "the record is cut off");
  }
  const auto length = static_cast<std::size_t>(length_at(bytes, offset));
  if (!has_footer(bytes, offset, length)) {
    throw RecordFault(place, "the bytes of the record do not fit their checksum");
  }
  return bytes.substr(offset + kHeader, length);
}

}  // namespace record_internal
void append_record(std::string& bytes, std::string_view content) {
  const std::size_t begin = bytes.size();
  const auto append = [&](const auto& number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  append(static_cast<std::uint64_t>(content.size()));
  append(masked_crc(bytes, begin, 8));
  bytes += content;
  append(masked_crc(bytes, begin + kHeader, content.size()));
}

}  // namespace fleetrec
