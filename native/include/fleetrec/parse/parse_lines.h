// SPDX-License-Identifier: Apache-2.0
// Text with a sample per line, parsed by several threads into the same arrays.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "fleetrec/parallel.h"
#include "fleetrec/parse/columns.h"
#include "fleetrec/parse/lines.h"
#include "fleetrec/parse/text_line.h"

namespace fleetrec {

// Some lines of a segment; `number` is that of the first one, counted within the segment.
struct TextStretch {
  std::string_view text;
  std::size_t segment;
  std::size_t number = 0;
  SampleRange samples{0, 0};
};

// Cuts every segment at line ends into as many stretches, about equally long; short ones stay
// whole.
std::vector<TextStretch> cut_stretches(std::span<const std::string_view> segments,
                                       std::size_t num_threads);

// Numbers lines and samples, of which every stretch has `num_lines`; returns all.
std::size_t number_samples(std::span<TextStretch> stretches,
                           std::span<const std::size_t> num_lines);

// Adds up the tokens of slots, keeping the order in which these were met first.
void add_undeclared(ParsedSlots& parsed,
                    std::span<const std::pair<std::string, std::int64_t>> counts);

// `Run(parser, columns)` parses one stretch: `parse_line(line)`, then `columns()`, `undeclared()`
// and `num_empty()`. With one thread it is the caller that works; more are those of `parallel_for`.
// Of several faults the first of the text is thrown.
template <typename Run, typename Parser>
ParsedSlots parse_lines(const Parser& parser, std::span<const std::string_view> segments,
                        std::size_t num_threads) {
  std::vector<TextStretch> stretches = cut_stretches(segments, num_threads);
  std::vector<std::exception_ptr> faults(stretches.size());
  const auto each_stretch = [&](const auto& work) {
    const auto work_or_fault = [&](std::size_t i) {
      try {
        work(i);
      } catch (...) {
        faults[i] = std::current_exception();
      }
    };
    if (num_threads > 1) {
      parallel_for(stretches.size(), work_or_fault);
    } else {
      for (std::size_t i = 0; i < stretches.size(); ++i) work_or_fault(i);
    }
    for (const std::exception_ptr& fault : faults) {
      if (fault != nullptr) std::rethrow_exception(fault);
    }
  };

  std::vector<std::size_t> num_lines(stretches.size());
  each_stretch([&](std::size_t i) { num_lines[i] = count_lines(stretches[i].text); });
  const ColumnsShape shape = parser.shape(number_samples(stretches, num_lines));
  ParsedSlots parsed(shape);
  // Threads write to their runs all the time: no two of them may share a line of the cache.
  struct alignas(64) Apart : Run {
    using Run::Run;
  };
  std::deque<Apart> runs;
  std::vector<const Columns*> ranges;
  for (const TextStretch& stretch : stretches) {
    runs.emplace_back(parser, Columns(parsed, shape, stretch.samples));
    ranges.push_back(&runs.back().columns());
  }
  each_stretch([&](std::size_t i) {
    const TextStretch& stretch = stretches[i];
    visit_lines(stretch.text, stretch.segment, stretch.number,
                [&](const TextLine& line) { runs[i].parse_line(line); });
  });
  finish_columns(parsed, shape, ranges);
  for (const Run& run : runs) {
    add_undeclared(parsed, run.undeclared());
    parsed.num_empty += run.num_empty();
  }
  return parsed;
}

}  // namespace fleetrec
