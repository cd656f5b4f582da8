// SPDX-License-Identifier: Apache-2.0
// What is wrong with a token, worked out again after a scan refused it.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace fleetrec {

enum class SlotKind { kSparse, kDense, kUndeclared };

// Thrown at the first bad token of the text.
class SlotTextFault : public std::exception {
 public:
  struct Place {
    std::size_t segment;
    std::size_t line;    // from 0, within the segment
    std::size_t column;  // from 1, in bytes
  };

  SlotTextFault(Place place, std::string_view token, std::string reason)
      : place_(place), token_(token), reason_(std::move(reason)) {}

  const char* what() const noexcept override { return reason_.c_str(); }
  const Place& place() const { return place_; }
  // Bytes as they stood in the text: any bytes but blank and newline.
  const std::string& token() const { return token_; }
  const std::string& reason() const { return reason_; }

 private:
  Place place_;
  std::string token_;
  std::string reason_;
};

// Between quotation marks, and cut where it is long.
std::string quoted(std::string_view text);

// The text before the first ':'; all of it if there is none.
std::string_view slot_of(std::string_view token);

std::string explain_bad_value(std::string_view slot, std::string_view value, SlotKind kind);
std::string explain_bad_token(std::string_view token, SlotKind kind);
std::string explain_bad_width(std::string_view slot, std::size_t expected, std::size_t got);

}  // namespace fleetrec
