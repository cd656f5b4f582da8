// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/index.h"

#include <algorithm>

namespace fleetrec {

void Index::insert(std::uint32_t tag, std::uint32_t row) {
  if ((size_ + 1) * 4 > lines_.size() * kLineEntries * 3) grow();
  place(tag, row + 1);
  ++size_;
}

void Index::erase(std::uint32_t tag, std::uint32_t row) {
  std::size_t at = tag & mask_;
  while (lines_[at].entry_of(row + 1) == kLineEntries) at = (at + 1) & mask_;
  std::size_t entry = lines_[at].entry_of(row + 1);
  // A line that is no longer full ends a search: entries that overflowed from it must move back.
  for (;;) {
    const bool was_full = lines_[at].is_full();
    lines_[at].remove(entry);
    if (!was_full) break;
    std::size_t next = (at + 1) & mask_;
    while (passer(next, at) == kLineEntries && lines_[next].is_full()) next = (next + 1) & mask_;
    entry = passer(next, at);
    if (entry == kLineEntries) break;
    lines_[at].add(lines_[next].tags[entry], lines_[next].numbers[entry]);
    at = next;
  }
  --size_;
}

// Returns an entry of a line that overflowed from an earlier one, or kLineEntries.
std::size_t Index::passer(std::size_t at, std::size_t passed) const {
  const Line& line = lines_[at];
  for (std::size_t i = 0; i < line.num_entries(); ++i) {
    if (((at - line.tags[i]) & mask_) >= ((at - passed) & mask_)) return i;
  }
  return kLineEntries;
}

void Index::grow() {
  std::vector<Line> old(std::max<std::size_t>(lines_.size() * 2, 1));
  old.swap(lines_);
  mask_ = lines_.size() - 1;
  for (const Line& line : old) {
    for (std::size_t i = 0; i < line.num_entries(); ++i) place(line.tags[i], line.numbers[i]);
  }
}

void Index::place(std::uint32_t tag, std::uint32_t number) {
  std::size_t at = tag & mask_;
  while (lines_[at].is_full()) at = (at + 1) & mask_;
  lines_[at].add(tag, number);
}

std::size_t Index::Line::num_entries() const { return entry_of(0); }

// Returns kLineEntries if there is none.
std::size_t Index::Line::entry_of(std::uint32_t number) const {
  return static_cast<std::size_t>(std::ranges::find(numbers, number) - numbers.begin());
}

void Index::Line::add(std::uint32_t tag, std::uint32_t number) {
  const std::size_t entry = num_entries();
  tags[entry] = tag;
  numbers[entry] = number;
}

// The last entry takes its place.
void Index::Line::remove(std::size_t entry) {
  const std::size_t last = num_entries() - 1;
  tags[entry] = tags[last];
  numbers[entry] = numbers[last];
  tags[last] = 0;
  numbers[last] = 0;
}

}  // namespace fleetrec
