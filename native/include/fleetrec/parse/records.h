// SPDX-License-Identifier: Apache-2.0
// TFRecord files: a record is the length of its bytes (8 bytes), a checksum of the length (4), the
// bytes, and a checksum of the bytes (4). Checksums are CRC-32C, rotated and shifted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace fleetrec {

// Thrown at the first bad record.
class RecordFault : public std::exception {
 public:
  struct Place {
    std::size_t segment;
    std::size_t record;  // from 0, within the segment
    std::size_t offset;  // of the record, in bytes, within the segment
  };

  RecordFault(Place place, std::string reason) : place_(place), reason_(std::move(reason)) {}

  const char* what() const noexcept override { return reason_.c_str(); }
  const Place& place() const { return place_; }
  const std::string& reason() const { return reason_; }

 private:
  Place place_;
  std::string reason_;
};

struct RecordCut {
  std::size_t end;          // just past the last whole record taken
  std::size_t num_records;  // before `end`
};

// Walks over at most `max_records` whole records from `begin` on. Lengths are checked, the bytes of
// the records are not. `begin` must not exceed the bytes. Throws RecordFault.
RecordCut cut_records(std::string_view bytes, std::size_t begin, std::size_t max_records);

// Whole records from the beginning on, up to the first whose length is bad.
std::size_t count_records(std::string_view bytes);

// Where the first whole record begins at or behind `begin`, known by both its checksums.
std::optional<std::size_t> find_record(std::string_view bytes, std::size_t begin);

// Writes a record behind what is there.
void append_record(std::string& bytes, std::string_view content);

// Visits all records of a segment with their bytes, which are checked. A segment holds whole
// records; throws RecordFault if it does not.
template <typename Visit>
void visit_records(std::string_view bytes, std::size_t segment, Visit visit);

namespace record_internal {

// The bytes of the record at `offset`; `place` is what a fault says.
std::string_view checked_record(std::string_view bytes, const RecordFault::Place& place);
inline constexpr std::size_t kOverhead = 16;

}  // namespace record_internal

template <typename Visit>
void visit_records(std::string_view bytes, std::size_t segment, Visit visit) {
  RecordFault::Place place{segment, 0, 0};
  while (place.offset < bytes.size()) {
    const std::string_view record = record_internal::checked_record(bytes, place);
    visit(record, place);
    place.offset += record.size() + record_internal::kOverhead;
    ++place.record;
  }
}

}  // namespace fleetrec
