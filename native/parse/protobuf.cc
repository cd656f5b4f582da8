// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/protobuf.h"

namespace fleetrec {

bool MessageReader::next() {
  if (at_ == end_ || is_bad_) return false;
  std::uint64_t tag;
  if (!next_varint(tag)) return false;
  const std::uint64_t field = tag >> 3;
  if (field == 0 || field > 0x1FFFFFFF) return fail();
  field_ = static_cast<std::uint32_t>(field);
  type_ = static_cast<WireType>(tag & 7);
  return read_value();
}

bool MessageReader::read_value() {
  switch (type_) {
    case WireType::kVarint:
      return next_varint(number_) || fail();
    case WireType::kFixed64:
      return take(8);
    case WireType::kFixed32:
      return take(4);
    case WireType::kBytes: {
      std::uint64_t num_bytes;
      return next_varint(num_bytes) ? take(num_bytes) : fail();
    }
  }
  return fail();  // groups, which no current writer makes, and types that do not exist
}

bool MessageReader::take(std::uint64_t num_bytes) {
  if (num_bytes > static_cast<std::uint64_t>(end_ - at_)) return fail();
  bytes_ = {at_, static_cast<std::size_t>(num_bytes)};
  at_ += num_bytes;
  return true;
}

bool MessageReader::next_varint(std::uint64_t& number) {
  if (at_ == end_) return false;
  number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) return fail();
    const auto byte = static_cast<std::uint8_t>(*at_++);
    number |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return fail();
}

}  // namespace fleetrec
