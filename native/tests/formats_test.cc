// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "check.h"
#include "format_garbage.h"

namespace fleetrec::testing {
namespace {

std::vector<std::int64_t> ids_of(const ParsedSlots& parsed) {
  return {parsed.ids.get(), parsed.ids.get() + parsed.num_ids};
}

template <typename Parser>
SlotTextFault::Place fault_of(const Parser& parser, std::string_view text) {
  try {
    parser.parse({&text, 1});
  } catch (const SlotTextFault& fault) {
    return fault.place();
  }
  CHECK(false);
  return {};
}

}  // namespace

TEST(wire_text_becomes_columns) {
  const WireParser parser({"a", "b"}, {{"d", 2}}, 9);
  const std::string_view text = "2 0.5 -1 1 7 2 8 9\n0\t0  1 3 \r\n";
  const ParsedSlots parsed = parser.parse({&text, 1});
  CHECK(ids_of(parsed) == std::vector<std::int64_t>{7, 9, 8, 9, 3});
  CHECK(std::ranges::equal(parsed.offsets, std::vector<std::int64_t>{0, 1, 2, 4, 5}));
  CHECK(std::ranges::equal(parsed.dense[0], std::vector<float>{0.5f, -1.0f, 9.0f, 9.0f}));
  CHECK(std::ranges::equal(parsed.seen, std::vector<std::int64_t>{1, 2, 1}));
  CHECK(parsed.weights == nullptr);
}

TEST(bad_wire_text_is_pointed_at) {
  const WireParser parser({"a"}, {{"d", 2}}, 0);
  CHECK(fault_of(parser, "2 1 1 1 1\n2 1").line == 1);
  CHECK(fault_of(parser, "1 1 1 1").column == 1);  // a wrong width
  CHECK(fault_of(parser, "0 -1 1").column == 3);   // a count below 0
  CHECK(fault_of(parser, "0 1 x").column == 5);    // no number
  CHECK(fault_of(parser, "0 1 1:2").column == 5);  // no number either
  CHECK(fault_of(parser, "0 1 5 6").column == 7);  // one token too many
  CHECK(fault_of(parser, "0 9 5").column == 6);    // values missing
  CHECK(fault_of(parser, "\n").column == 1);       // an empty line
}

TEST(libsvm_text_becomes_weighted_ids) {
  const SvmParser parser({"y", LabelKind::kSparse, {"f"}, false}, 0);
  const std::string_view text = "1 3:0.5 7:2 # 9:9\n-1\n\n";
  const ParsedSlots parsed = parser.parse({&text, 1});
  CHECK(ids_of(parsed) == std::vector<std::int64_t>{1, -1, 0, 3, 7, 0, 0});
  const std::vector<float> weights(parsed.weights.get(), parsed.weights.get() + parsed.num_ids);
  CHECK(weights == std::vector<float>{1, 1, 1, 0.5f, 2, 1, 1});
  CHECK(parsed.num_empty == 1);
  CHECK(fault_of(parser, "x 1:1").column == 1);
  CHECK(fault_of(parser, "1 1:1 2").column == 7);
  CHECK(fault_of(parser, "1 1:1:1").column == 3);
}

TEST(libffm_text_has_fields) {
  const SvmParser parser({"y", LabelKind::kDense, {"1", "2"}, true}, 0);
  const std::string_view text = "0.5 2:4:1 1:3:0.5 9:1:1\n";
  const ParsedSlots parsed = parser.parse({&text, 1});
  CHECK(ids_of(parsed) == std::vector<std::int64_t>{3, 4});
  CHECK(parsed.weights[0] == 0.5f && parsed.dense[0][0] == 0.5f);
  CHECK(parsed.undeclared.size() == 1 && parsed.undeclared[0].first == "9");
  CHECK(fault_of(parser, "1 1:3").column == 3);
  CHECK_THROWS(std::invalid_argument, SvmParser({"y", LabelKind::kDense, {"1", "2"}, false}, 0));
}

TEST(records_are_cut_and_found) {
  const std::string first = to_record("abc");
  const std::string both = first + to_record("");
  CHECK(first.size() == 19 && both.size() == 35);
  CHECK(cut_records(both, 0, 9).num_records == 2 && cut_records(both, 0, 1).end == 19);
  CHECK(cut_records(std::string_view(both).substr(0, 34), 0, 9).end == 19);
  CHECK(find_record(both, 0) == 0 && find_record(both, 1) == 19);
  CHECK(find_record(both, 20) == std::nullopt && count_records(both) == 2);
  std::string damaged = both;
  damaged[20] ^= 1;
  CHECK_THROWS(RecordFault, cut_records(damaged, 0, 9));
}

TEST(a_damaged_record_is_pointed_at) {
  const ExampleParser parser({"a"}, {}, 0);
  std::string bytes = to_record("") + to_record("\x0a\x00");
  bytes[16 + 12] ^= 1;
  const std::string_view segment = bytes;
  try {
    parser.parse({&segment, 1});
    CHECK(false);
  } catch (const RecordFault& fault) {
    CHECK(fault.place().record == 1 && fault.place().offset == 16);
  }
}

TEST(garbage_in_any_format_is_parsed_or_refused) {
  Random random(43);
  for (int i = 0; i < 10'000; ++i) {
    feed_wire_text(random);
    feed_svm_text(random);
    feed_records(random);
  }
}

}  // namespace fleetrec::testing
