// SPDX-License-Identifier: Apache-2.0
// Finding line ends in text that is read in large pieces.
#pragma once

#include <cstddef>
#include <string_view>

namespace fleetrec {

struct LineCut {
  std::size_t end;        // just past the last newline taken, or the end of the text
  std::size_t num_lines;  // newlines found before `end`
};

// Walks over at most `max_lines` newlines from `begin` on. `begin` must not exceed the text.
LineCut cut_lines(std::string_view text, std::size_t begin, std::size_t max_lines);

// Lines in the text; the last one counts whether or not a newline ends it.
std::size_t count_lines(std::string_view text);

}  // namespace fleetrec
