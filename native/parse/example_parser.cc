// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/example_parser.h"

#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "fleetrec/parse/cells.h"
#include "fleetrec/parse/protobuf.h"
#include "fleetrec/parse/slot_fault.h"
#include "fleetrec/snapshot/bytes.h"

namespace fleetrec {
namespace {

// Numbers of fields in the messages Example, Features, their map entries, Feature and lists.
constexpr std::uint32_t kFeatures = 1;
constexpr std::uint32_t kEntry = 1;
constexpr std::uint32_t kKey = 1;
constexpr std::uint32_t kValue = 2;
constexpr std::uint32_t kItem = 1;
enum ListKind : std::uint32_t { kNone = 0, kBytesList = 1, kFloatList = 2, kIntegerList = 3 };

const char* name_of(ListKind kind) {
  return kind == kBytesList ? "bytes_list" : kind == kFloatList ? "float_list" : "int64_list";
}

// The lists of one feature. A message that is written in parts has several of one kind.
struct FeatureLists {
  ListKind kind = kNone;
  std::vector<std::string_view> lists;
};

float load_float(const char* at) { return load<float>(reinterpret_cast<const std::byte*>(at)); }

// One call of ExampleParser::parse.
class ExampleRun {
 public:
  ExampleRun(const ExampleParser& parser, std::size_t num_samples)
      : parser_(parser),
        shape_{num_samples, parser.num_sparse(), parser.widths(), parser.padding()},
        parsed_(shape_),
        columns_(parsed_, shape_, {0, num_samples}),
        features_(parser.names().size()) {}

  void parse_record(std::string_view record, const RecordFault::Place& place) {
    columns_.check_room();
    place_ = place;
    for (std::optional<std::string_view>& feature : features_) feature.reset();
    num_features_ = 0;
    MessageReader example(record);
    while (example.next()) {
      if (example.is(kFeatures, WireType::kBytes)) find_features(example.bytes());
    }
    if (example.is_bad()) fail_as_message();
    if (num_features_ == 0) ++num_empty_;
    for (std::size_t slot = 0; slot < features_.size(); ++slot) {
      if (features_[slot]) read_feature(slot, *features_[slot]);
    }
    columns_.end_sample();
  }

  ParsedSlots finish() {
    const Columns* const all = &columns_;
    finish_columns(parsed_, shape_, {&all, 1});
    for (const auto& [name, count] : undeclared_) parsed_.undeclared.emplace_back(name, count);
    parsed_.num_empty = num_empty_;
    return std::move(parsed_);
  }

 private:
  // Of a name that comes twice the last counts, as protobuf has it.
  void find_features(std::string_view message) {
    MessageReader entries(message);
    while (entries.next()) {
      if (!entries.is(kEntry, WireType::kBytes)) continue;
      std::string_view key;
      std::string_view value;
      MessageReader entry(entries.bytes());
      while (entry.next()) {
        if (entry.is(kKey, WireType::kBytes)) key = entry.bytes();
        if (entry.is(kValue, WireType::kBytes)) value = entry.bytes();
      }
      if (entry.is_bad()) fail_as_message();
      ++num_features_;
      const SlotIndex slot = parser_.names().find(key);
      if (slot == kNoSlot) {
        ++undeclared_[key];
      } else {
        features_[slot] = value;
      }
    }
    if (entries.is_bad()) fail_as_message();
  }

  void read_feature(std::size_t slot, std::string_view message) {
    FeatureLists feature;
    MessageReader kinds(message);
    while (kinds.next()) {
      if (kinds.type() != WireType::kBytes || kinds.field() > kIntegerList) continue;
      const auto kind = static_cast<ListKind>(kinds.field());
      if (kind != feature.kind) feature = {kind, {}};
      feature.lists.push_back(kinds.bytes());
    }
    if (kinds.is_bad()) fail_as_message();
    for (const std::string_view list : feature.lists) read_list(slot, feature.kind, list);
    const std::size_t dense = slot - parser_.num_sparse();
    if (slot >= parser_.num_sparse() && columns_.dense(dense).is_wrong()) {
      throw RecordFault(place_, explain_bad_width(parser_.names()[slot], parser_.widths()[dense],
                                                  columns_.dense(dense).num_values()));
    }
  }

  void read_list(std::size_t slot, ListKind kind, std::string_view list) {
    MessageReader items(list);
    while (items.next()) {
      if (items.field() != kItem) continue;
      const bool is_packed = items.type() == WireType::kBytes && kind != kBytesList;
      if (kind == kIntegerList && items.type() == WireType::kVarint) {
        push_integer(slot, items.varint());
      } else if (kind == kIntegerList && is_packed) {
        push_integers(slot, items.bytes());
      } else if (kind == kFloatList && (is_packed || items.type() == WireType::kFixed32)) {
        push_floats(slot, items.bytes());
      } else if (kind == kBytesList && items.type() == WireType::kBytes) {
        push_bytes(slot, items.bytes());
      } else {
        fail_as_message();
      }
    }
    if (items.is_bad()) fail_as_message();
  }

  void push_integer(std::size_t slot, std::uint64_t number) {
    const auto id = static_cast<std::int64_t>(number);
    if (slot < parser_.num_sparse()) {
      columns_.sparse(slot).push(id);
    } else {
      columns_.dense(slot - parser_.num_sparse()).push(static_cast<float>(static_cast<double>(id)));
    }
  }

  void push_integers(std::size_t slot, std::string_view packed) {
    MessageReader numbers(packed);
    std::uint64_t number;
    while (numbers.next_varint(number)) push_integer(slot, number);
    if (numbers.is_bad()) fail_as_message();
  }

  void push_floats(std::size_t slot, std::string_view packed) {
    if (packed.size() % sizeof(float) != 0) fail_as_message();
    if (packed.empty()) return;
    if (slot < parser_.num_sparse()) fail_as_kind(slot, kFloatList);
    for (std::size_t i = 0; i < packed.size(); i += sizeof(float)) {
      const float number = load_float(packed.data() + i);
      if (!(std::fabs(number) <= std::numeric_limits<float>::max())) {
        throw RecordFault(place_, "feature " + quoted(parser_.names()[slot]) +
                                      " is dense: expected finite numbers, got " +
                                      std::to_string(number));
      }
      columns_.dense(slot - parser_.num_sparse()).push(number);
    }
  }

  // Text stands for the same id in every format; an empty one for none.
  void push_bytes(std::size_t slot, std::string_view text) {
    if (slot >= parser_.num_sparse()) fail_as_kind(slot, kBytesList);
    if (!text.empty()) columns_.sparse(slot).push(text_id(text));
  }

  [[noreturn]] void fail_as_kind(std::size_t slot, ListKind kind) const {
    const bool is_sparse = slot < parser_.num_sparse();
    throw RecordFault(place_,
                      "feature " + quoted(parser_.names()[slot]) + " is " +
                          (is_sparse ? "sparse: expected an int64_list or bytes_list, got a "
                                     : "dense: expected a float_list or int64_list, got a ") +
                          name_of(kind));
  }

  [[noreturn]] void fail_as_message() const {
    throw RecordFault(place_, "the bytes are no tf.Example message");
  }

  const ExampleParser& parser_;
  ColumnsShape shape_;
  ParsedSlots parsed_;
  Columns columns_;
  std::vector<std::optional<std::string_view>> features_;          // by slot, of this record
  std::unordered_map<std::string_view, std::int64_t> undeclared_;  // views into the segments
  std::size_t num_features_ = 0;
  std::int64_t num_empty_ = 0;
  RecordFault::Place place_{};
};

}  // namespace

ExampleParser::ExampleParser(std::vector<std::string> sparse, std::vector<DenseSlot> dense,
                             std::int64_t padding)
    : num_sparse_(sparse.size()),
      widths_(widths_of(dense)),
      padding_(padding),
      names_(all_names(std::move(sparse), dense)) {}

ParsedSlots ExampleParser::parse(std::span<const std::string_view> segments) const {
  std::size_t num_samples = 0;
  for (const std::string_view bytes : segments) num_samples += count_records(bytes);
  ExampleRun run(*this, num_samples);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    visit_records(segments[i], i, [&run](std::string_view record, const RecordFault::Place& place) {
      run.parse_record(record, place);
    });
  }
  return run.finish();
}

}  // namespace fleetrec
