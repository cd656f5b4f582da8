// SPDX-License-Identifier: Apache-2.0
// Walking over a protobuf message without its schema, as far as tf.Example needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fleetrec {

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Field after field of one message. is_bad() reports a truncated or invalid message.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Reads the next field; false at the end, or if the message is bad.
  bool next();

  // Of the field that was read last.
  std::uint32_t field() const { return field_; }
  WireType type() const { return type_; }
  std::uint64_t varint() const { return number_; }
  std::string_view bytes() const { return bytes_; }  // of any type but varint
  bool is(std::uint32_t field, WireType type) const { return field_ == field && type_ == type; }

  bool is_bad() const { return is_bad_; }

  // Reads a number that is not part of a field: packed lists hold them so. False at the end, or if
  // there is none.
  bool next_varint(std::uint64_t& number);

 private:
  bool read_value();
  bool take(std::uint64_t num_bytes);
  bool fail() {
    is_bad_ = true;
    return false;
  }

  const char* at_;
  const char* end_;
  std::uint32_t field_ = 0;
  WireType type_ = WireType::kVarint;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
  bool is_bad_ = false;
};

}  // namespace fleetrec
