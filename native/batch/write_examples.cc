// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/batch/write_examples.h"

#include <stdexcept>

#include "fleetrec/parse/records.h"

namespace fleetrec {
namespace {

constexpr char kFloatList = 2;
constexpr char kIntegerList = 3;

void append_varint(std::string& bytes, std::uint64_t number) {
  while (number >= 0x80) {
    bytes.push_back(static_cast<char>(number | 0x80));
    number >>= 7;
  }
  bytes.push_back(static_cast<char>(number));
}

// A field of bytes, which is also what a message or a packed list is.
void append_field(std::string& bytes, char number, std::string_view content) {
  bytes.push_back(static_cast<char>(number << 3 | 2));
  append_varint(bytes, content.size());
  bytes += content;
}

// Writes one message after the other; its strings keep their memory.
class ExampleWriter {
 public:
  void begin() { features_.clear(); }

  void add(std::string_view name, std::span<const std::int64_t> ids) {
    list_.clear();
    for (const std::int64_t id : ids) append_varint(list_, static_cast<std::uint64_t>(id));
    add_feature(name, kIntegerList);
  }

  void add(std::string_view name, std::span<const float> numbers) {
    list_.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
    add_feature(name, kFloatList);
  }

  std::string_view end() {
    example_.clear();
    append_field(example_, 1, features_);
    return example_;
  }

 private:
  void add_feature(std::string_view name, char kind) {
    packed_.clear();
    append_field(packed_, 1, list_);
    feature_.clear();
    append_field(feature_, kind, packed_);
    entry_.clear();
    append_field(entry_, 1, name);
    append_field(entry_, 2, feature_);
    append_field(features_, 1, entry_);
  }

  std::string list_;
  std::string packed_;
  std::string feature_;
  std::string entry_;
  std::string features_;
  std::string example_;
};

void check(const SampleColumns& samples) {
  bool fits = samples.offsets.size() == samples.sparse.size() * samples.num_samples + 1;
  std::int64_t before = 0;
  for (const std::int64_t offset : samples.offsets) {
    fits = fits && offset >= before;
    before = offset;
  }
  fits = fits && before <= static_cast<std::int64_t>(samples.ids.size());
  for (const DenseColumn& column : samples.dense) {
    fits = fits && column.values.size() == column.width * samples.num_samples;
  }
  if (!fits) throw std::invalid_argument("the columns do not fit the number of samples");
}

}  // namespace

std::string write_examples(const SampleColumns& samples) {
  check(samples);
  std::string records;
  ExampleWriter writer;
  for (std::size_t i = 0; i < samples.num_samples; ++i) {
    writer.begin();
    for (std::size_t column = 0; column < samples.sparse.size(); ++column) {
      const std::int64_t* ends = &samples.offsets[column * samples.num_samples + i];
      writer.add(samples.sparse[column],
                 samples.ids.subspan(static_cast<std::size_t>(ends[0]),
                                     static_cast<std::size_t>(ends[1] - ends[0])));
    }
    for (const DenseColumn& column : samples.dense) {
      writer.add(column.name, column.values.subspan(i * column.width, column.width));
    }
    append_record(records, writer.end());
  }
  return records;
}

}  // namespace fleetrec
