// SPDX-License-Identifier: Apache-2.0
// Random bytes for the parsers of wire text, libsvm and libffm text, and TFRecords.
#pragma once

#include <string>
#include <string_view>

#include "fleetrec/parse/example_parser.h"
#include "fleetrec/parse/records.h"
#include "fleetrec/parse/svm_parser.h"
#include "fleetrec/parse/wire_parser.h"
#include "fleetrec/snapshot/crc32c.h"
#include "garbage.h"

namespace fleetrec::testing {

using namespace std::literals;

inline std::string random_pieces(Random& random, std::span<const std::string_view> pieces) {
  std::string text;
  const std::size_t num_pieces = random() % 40;
  for (std::size_t i = 0; i < num_pieces; ++i) {
    if (random() % 24 == 0) {
      text += static_cast<char>(random() % 256);
    } else {
      text += pieces[random() % pieces.size()];
    }
  }
  return text;
}

template <typename Parser>
void feed_text(const Parser& parser, const std::string& text) {
  const Exact exact(text);
  const std::string_view segment = exact.view();
  try {
    check_parsed(parser.parse({&segment, 1}), count_lines(segment));
  } catch (const SlotTextFault& fault) {
    CHECK(fault.place().line < count_lines(segment) && fault.place().column >= 1);
    CHECK(!fault.reason().empty());
  }
}

inline void feed_wire_text(Random& random) {
  static constexpr std::string_view kPieces[] = {
      "2 1.5 -2 1 7 2 8 9\n", "0 0 0\n", "2 1 ",  "1 7 ", "0 ", " ", "\t", "\n", "-1 ",
      "9999999999999999999 ", "x",       "1e30 ", "\r\n", "2"};
  static const WireParser parser({"a", "b"}, {{"d", 2}}, 3);
  feed_text(parser, random_pieces(random, kPieces));
}

inline void feed_svm_text(Random& random) {
  static constexpr std::string_view kPieces[] = {"1 2:0.5 3:1\n",
                                                 "0 1:2:0.5 2:3:1\n",
                                                 "1 ",
                                                 "-1",
                                                 "2:",
                                                 ":",
                                                 "0.5 ",
                                                 "# x",
                                                 "\n",
                                                 " ",
                                                 "\t",
                                                 "1:7:1 ",
                                                 "9:9:9 ",
                                                 "x:1:1 ",
                                                 "18446744073709551615:"};
  static const SvmParser plain({"y", LabelKind::kSparse, {"f"}, false}, 0);
  static const SvmParser fields({"y", LabelKind::kDense, {"1", "2"}, true}, 0);
  feed_text(random() % 2 == 0 ? plain : fields, random_pieces(random, kPieces));
}

inline void put_number(std::string& bytes, std::uint64_t number, std::size_t num_bytes) {
  for (std::size_t i = 0; i < num_bytes; ++i) bytes += static_cast<char>(number >> (8 * i));
}

inline std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc =
      crc32c(0, std::span(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

inline std::string to_record(std::string_view data) {
  std::string record;
  put_number(record, data.size(), 8);
  put_number(record, masked(record), 4);
  record += data;
  put_number(record, masked(data), 4);
  return record;
}

// A message of fields that are nearly those of tf.Example.
inline std::string random_message(Random& random, int depth) {
  std::string message;
  const std::size_t num_fields = random() % 4;
  for (std::size_t i = 0; i < num_fields; ++i) {
    if (random() % 32 == 0) message += static_cast<char>(random() % 256);
    if (depth == 0 || random() % 4 == 0) {
      // In octal: tag and length, then the bytes.
      static constexpr std::string_view kLeaves[] = {"\012\001a"sv,
                                                     "\012\001d"sv,
                                                     "\010\007"sv,
                                                     "\015abcd"sv,
                                                     "\012\004abcd"sv,
                                                     "\012\002\226\001"sv,
                                                     "\012\000"sv,
                                                     "\01112345678"sv,
                                                     "\032\002\010\005"sv,
                                                     "\022\006\012\004abcd"sv,
                                                     "\013"sv,
                                                     "\012\177"sv};
      message += kLeaves[random() % std::size(kLeaves)];
    } else {
      const std::string inner = random_message(random, depth - 1);
      message += static_cast<char>((1 + random() % 3) << 3 | 2);
      if (inner.size() >= 128) message += static_cast<char>(inner.size() % 128 | 0x80);
      message += static_cast<char>(inner.size() >= 128 ? inner.size() / 128 : inner.size());
      message += inner;
    }
  }
  return message;
}

// Records that are cut are all there are, and one is found from any place.
inline void check_records(Random& random, std::string_view bytes) {
  try {
    const RecordCut cut = cut_records(bytes, 0, 1 + random() % 3);
    CHECK(cut.end <= bytes.size() && cut.num_records <= count_records(bytes));
  } catch (const RecordFault& fault) {
    CHECK(fault.place().offset < bytes.size());
  }
  const std::size_t begin = random() % (bytes.size() + 1);
  if (const auto found = find_record(bytes, begin)) CHECK(*found >= begin && *found < bytes.size());
}

inline void feed_records(Random& random) {
  static const ExampleParser parser({"a", "b"}, {{"d", 1}}, 0);
  std::string bytes;
  const std::size_t num_records = random() % 4;
  for (std::size_t i = 0; i < num_records; ++i) bytes += to_record(random_message(random, 5));
  if (!bytes.empty() && random() % 4 == 0) bytes[random() % bytes.size()] ^= 1;
  if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
  const Exact exact(bytes);
  check_records(random, exact.view());
  const std::string_view segment = exact.view();
  try {
    check_parsed(parser.parse({&segment, 1}), count_records(segment));
  } catch (const RecordFault& fault) {
    CHECK(fault.place().record <= count_records(segment) && !fault.reason().empty());
  }
}

}  // namespace fleetrec::testing
