// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

#include "check.h"
#include "fleetrec/parse/lines.h"
#include "fleetrec/parse/slot_parser.h"
#include "garbage.h"

namespace fleetrec::testing {

TEST(lines_become_columns) {
  const SlotParser parser({"a", "b"}, {{"d", 2}}, 9);
  const std::string_view text = "a:1 b:2 d:0.5 d:-1\n\nb:3 a:4 b:5 x:y";
  const ParsedSlots parsed = parser.parse({&text, 1});
  CHECK(parsed.num_samples == 3 && parsed.num_ids == 7 && parsed.num_empty == 1);
  const std::vector<std::int64_t> ids(parsed.ids.get(), parsed.ids.get() + parsed.num_ids);
  CHECK(ids == std::vector<std::int64_t>{1, 9, 4, 2, 9, 3, 5});
  CHECK(std::ranges::equal(parsed.offsets, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 7}));
  CHECK(
      std::ranges::equal(parsed.dense[0], std::vector<float>{0.5f, -1.0f, 9.0f, 9.0f, 9.0f, 9.0f}));
  CHECK(std::ranges::equal(parsed.seen, std::vector<std::int64_t>{2, 2, 1}));
  CHECK(parsed.undeclared.size() == 1 && parsed.undeclared[0].first == "x");
}

TEST(a_bad_token_is_pointed_at) {
  const SlotParser parser({"a"}, {}, 0);
  const std::string_view segments[] = {"a:1\n", "a:1\n  a:2 a:x\n"};
  try {
    parser.parse(segments);
    CHECK(false);
  } catch (const SlotTextFault& fault) {
    CHECK(fault.place().segment == 1 && fault.place().line == 1 && fault.place().column == 7);
    CHECK(fault.token() == "a:x");
  }
}

TEST(garbage_is_parsed_or_refused) {
  Random random(41);
  for (int i = 0; i < 20'000; ++i) feed_garbage(random);
}

TEST(threads_may_share_a_parser) {
  const SlotParser parser({"a", "b"}, {{"d", 1}}, 0);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&parser] {
      const std::string_view text = "a:1 b:2 x:1 d:3\na:4\n";
      for (int i = 0; i < 200; ++i) CHECK(parser.parse({&text, 1}).num_ids == 4);
    });
  }
}

// Long enough for several stretches: lists of any length, slots that are missing or undeclared.
std::string long_text(Random& random) {
  std::string text;
  while (text.size() < 500'000) {
    for (std::size_t i = random() % 4; i > 0; --i) {
      text.append("a:").append(std::to_string(random())).append(" ");
    }
    if (random() % 3 == 0) {
      text.append("d:1.5 d:-").append(std::to_string(random() % 1000)).append(" ");
    }
    if (random() % 2 == 0) text.append("x").append(std::to_string(random() % 3)).append(":1 ");
    text.append("b:7\n");
  }
  return text;
}

TEST(any_number_of_threads_gives_the_same_arrays) {
  Random random(5);
  const SlotParser parser({"a", "b"}, {{"d", 2}}, 9);
  const std::string texts[] = {long_text(random), "a:1", long_text(random) + "a:5 b:6", ""};
  const std::vector<std::string_view> segments(std::begin(texts), std::end(texts));
  const ParsedSlots one = parser.parse(segments, 1);
  for (const std::size_t num_threads : {2, 3, 7}) {
    const ParsedSlots several = parser.parse(segments, num_threads);
    CHECK(several.num_samples == one.num_samples && several.num_ids == one.num_ids);
    CHECK(std::equal(one.ids.get(), one.ids.get() + one.num_ids, several.ids.get()));
    CHECK(std::ranges::equal(several.offsets, one.offsets));
    CHECK(std::ranges::equal(several.dense[0], one.dense[0]));
    CHECK(std::ranges::equal(several.seen, one.seen));
    CHECK(several.undeclared == one.undeclared && several.num_empty == one.num_empty);
  }
}

TEST(of_several_faults_the_first_of_the_text_is_thrown) {
  Random random(6);
  const SlotParser parser({"a", "b"}, {{"d", 2}}, 9);
  const std::string good = long_text(random);
  const std::string text = good + "a:bad\n" + good + "a:worse\n" + good;
  const std::string_view segments[] = {good, text};
  for (const std::size_t num_threads : {1, 2, 3, 8}) {
    try {
      parser.parse(segments, num_threads);
      CHECK(false);
    } catch (const SlotTextFault& fault) {
      CHECK(fault.token() == "a:bad" && fault.place().segment == 1);
      CHECK(fault.place().line == count_lines(good) && fault.place().column == 1);
    }
  }
}

TEST(lines_are_cut_where_they_end) {
  const std::string_view text = "a\nbc\n\nd";
  CHECK(count_lines(text) == 4 && count_lines("") == 0 && count_lines("\n") == 1);
  CHECK(cut_lines(text, 0, 2).end == 5 && cut_lines(text, 0, 2).num_lines == 2);
  CHECK(cut_lines(text, 2, 9).end == 7 && cut_lines(text, 2, 9).num_lines == 2);
  CHECK(cut_lines(text, 7, 1).end == 7 && cut_lines(text, 7, 1).num_lines == 0);
  CHECK(cut_lines(text, 3, 0).end == 3);
}

}  // namespace fleetrec::testing
