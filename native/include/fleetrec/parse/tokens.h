// SPDX-License-Identifier: Apache-2.0
// The tokens of one line, separated by blanks or tabs.
#pragma once

#include <string>
#include <string_view>

#include "fleetrec/parse/number.h"
#include "fleetrec/parse/text_line.h"

namespace fleetrec {

class TokenReader {
 public:
  explicit TokenReader(const TextLine& line) : line_(line), at_(line.begin) {}

  // Moves to the next token; false at the end of the line.
  bool advance() {
    while (at_ < line_.end && is_blank(*at_)) ++at_;
    return at_ < line_.end;
  }

  // Each reads the token, or a part of it that ends before a ':', and moves behind it. False, and
  // no move, if it is no such number.
  bool read_id(std::int64_t& id) { return move_to(scan_id(at_, line_.end, line_.limit, id)); }
  bool read_float(float& number) {
    return move_to(scan_float(at_, line_.end, line_.limit, number));
  }

  // Takes a ':' if there is one.
  bool take_colon() {
    if (at_ == line_.end || *at_ != ':') return false;
    ++at_;
    return true;
  }

  bool is_at_end_of_token() const { return at_ == line_.end || is_blank(*at_); }
  const char* at() const { return at_; }
  void move(const char* at) { at_ = at; }

  // The token that begins at `first`.
  std::string_view token(const char* first) const {
    const char* stop = first;
    while (stop < line_.end && !is_blank(*stop)) ++stop;
    return {first, static_cast<std::size_t>(stop - first)};
  }

  [[noreturn]] void fail(const char* first, std::string reason) const {
    throw SlotTextFault(line_.place(first), token(first), std::move(reason));
  }

 private:
  static bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }

  bool move_to(const char* stop) {
    if (stop == nullptr || !(stop == line_.end || *stop == ':' || is_blank(*stop))) return false;
    at_ = stop;
    return true;
  }

  const TextLine& line_;
  const char* at_;
};

}  // namespace fleetrec
