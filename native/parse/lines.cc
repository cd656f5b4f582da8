// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/lines.h"

#include <limits>

namespace fleetrec {

LineCut cut_lines(std::string_view text, std::size_t begin, std::size_t max_lines) {
  std::size_t at = begin;
  for (std::size_t num_lines = 0; num_lines < max_lines; ++num_lines) {
    // string_view::find of one character is memchr.
    const std::size_t newline = text.find('\n', at);
    if (newline == std::string_view::npos) return {text.size(), num_lines};
    at = newline + 1;
  }
  return {at, max_lines};
}

std::size_t count_lines(std::string_view text) {
  const std::size_t num_newlines =
      cut_lines(text, 0, std::numeric_limits<std::size_t>::max()).num_lines;
  const bool is_open = !text.empty() && text.back() != '\n';
  return num_newlines + (is_open ? 1 : 0);
}

}  // namespace fleetrec
