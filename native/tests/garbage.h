// SPDX-License-Identifier: Apache-2.0
// Random text for the parser: bytes, and mutilated lines that are nearly right.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "fleetrec/parse/lines.h"
#include "fleetrec/parse/slot_parser.h"
#include "making.h"

namespace fleetrec::testing {

// A copy that ends where its memory ends, so that AddressSanitizer sees a read behind it.
class Exact {
 public:
  explicit Exact(std::string_view text) : bytes_(new char[text.size()]), size_(text.size()) {
    std::memcpy(bytes_.get(), text.data(), text.size());
  }

  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

inline std::string random_text(Random& random) {
  static constexpr const char* kPieces[] = {"a:",
                                            "b:",
                                            "long_name_of_a_slot:",
                                            "d:",
                                            "e:",
                                            ":",
                                            "::",
                                            " ",
                                            "\n",
                                            "\r\n",
                                            "\t",
                                            "0",
                                            "-1",
                                            "18446744073709551615",
                                            "99999999999999999999",
                                            "1e30",
                                            "-9223372036854775808",
                                            ".5",
                                            "1e-400",
                                            "nan",
                                            "inf",
                                            "0x1p3",
                                            "+7",
                                            "unknown:1",
                                            "1.5 ",
                                            "3.4028236e38",
                                            "123456789.123456789123456789",
                                            "00000000000000000000000001"};
  std::string text;
  const std::size_t num_pieces = random() % 40;
  for (std::size_t i = 0; i < num_pieces; ++i) {
    if (random() % 12 == 0) {
      text += static_cast<char>(random() % 256);
    } else if (random() % 2 == 0) {
      static constexpr const char* kRight[] = {"a:12 ", "b:-3 ", "d:1.5 d:2 ", "e:7 ", "\n"};
      text += kRight[random() % std::size(kRight)];
    } else {
      text += kPieces[random() % std::size(kPieces)];
    }
  }
  return text;
}

// What holds of every text that was parsed.
inline void check_parsed(const ParsedSlots& parsed, std::size_t num_lines) {
  CHECK(parsed.num_samples == num_lines);
  CHECK(parsed.offsets.front() == 0);
  CHECK(parsed.offsets.back() == static_cast<std::int64_t>(parsed.num_ids));
  CHECK(std::ranges::is_sorted(parsed.offsets));
  // All that is handed out can be read.
  [[maybe_unused]] volatile std::int64_t last = 0;
  for (std::size_t i = 0; i < parsed.num_ids; ++i) last = parsed.ids[i];
  for (const auto& column : parsed.dense) {
    for (const float value : column) CHECK(value == value);
  }
}

// Lines that are cut one or more at a time are all the lines there are.
inline void check_cuts(Random& random, std::string_view text) {
  std::size_t begin = 0;
  std::size_t num_newlines = 0;
  while (begin < text.size()) {
    const LineCut cut = cut_lines(text, begin, 1 + random() % 3);
    CHECK(cut.end > begin && cut.end <= text.size());
    CHECK(cut.end == text.size() || text[cut.end - 1] == '\n');
    num_newlines += cut.num_lines;
    begin = cut.end;
  }
  CHECK(num_newlines == static_cast<std::size_t>(std::ranges::count(text, '\n')));
}

// Feeds one random text of one or two segments.
inline void feed_garbage(Random& random) {
  static const SlotParser parser({"a", "b", "long_name_of_a_slot"}, {{"d", 2}, {"e", 1}}, 0);
  const Exact first(random_text(random));
  const Exact second(random_text(random));
  check_cuts(random, first.view());
  const std::string_view segments[] = {first.view(), second.view()};
  const std::span wanted(segments, 1 + random() % 2);
  std::size_t num_lines = 0;
  for (const std::string_view text : wanted) num_lines += count_lines(text);
  try {
    check_parsed(parser.parse(wanted), num_lines);
  } catch (const SlotTextFault& fault) {
    CHECK(fault.place().segment < wanted.size() && fault.place().column >= 1);
    CHECK(!fault.reason().empty());
  }
}

}  // namespace fleetrec::testing
