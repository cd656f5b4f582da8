// SPDX-License-Identifier: Apache-2.0
// The lines of a text, and places in them.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

#include "fleetrec/parse/slot_fault.h"

namespace fleetrec {

inline bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\v' || byte == '\f';
}

// White space at both ends does not belong to the line. Bytes up to `limit` may be read.
struct TextLine {
  const char* text;  // before white space was stripped: columns count from here
  const char* begin;
  const char* end;
  const char* limit;
  std::size_t segment;
  std::size_t number;

  bool is_empty() const { return begin == end; }

  SlotTextFault::Place place(const char* at) const {
    return {segment, number, static_cast<std::size_t>(at - text) + 1};
  }
};

// Calls `visit` with every line of a segment, or of a part of one that begins with line `number`;
// the last one may lack its newline.
template <typename Visit>
void visit_lines(std::string_view text, std::size_t segment, std::size_t number, Visit visit) {
  const char* limit = text.data() + text.size();
  const char* first = text.data();
  for (; first < limit; ++number) {
    const void* newline = std::memchr(first, '\n', static_cast<std::size_t>(limit - first));
    const char* next = newline == nullptr ? limit : static_cast<const char*>(newline);
    TextLine line{first, first, next, limit, segment, number};
    while (line.begin < line.end && is_space(*line.begin)) ++line.begin;
    while (line.begin < line.end && is_space(line.end[-1])) --line.end;
    visit(line);
    first = next + 1;
  }
}

}  // namespace fleetrec
