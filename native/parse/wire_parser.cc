// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/wire_parser.h"

#include "fleetrec/parse/parse_lines.h"
#include "fleetrec/parse/tokens.h"

namespace fleetrec {
namespace {

std::string slot_at(std::string_view name, std::size_t place) {
  return "slot " + quoted(name) + " (number " + std::to_string(place) + " of a line)";
}

// What a slot with values is called in messages; `place` counts from 1.
struct WireSlot {
  std::string_view name;
  SlotKind kind;
  std::size_t place;
};

struct Count {
  std::size_t value;
  const char* at;
};

Count read_count(TokenReader& tokens, const WireSlot& slot) {
  std::int64_t count = 0;
  if (!tokens.advance()) {
    tokens.fail(tokens.at(),
                "the line ends before " + slot_at(slot.name, slot.place) + ", which needs a count");
  }
  const char* first = tokens.at();
  if (!tokens.read_id(count) || !tokens.is_at_end_of_token() || count < 0) {
    tokens.fail(first, slot_at(slot.name, slot.place) +
                           ": expected the number of its values, got " +
                           quoted(tokens.token(first)));
  }
  return {static_cast<std::size_t>(count), first};
}

// Reads `count` values with `read`, which pushes one and returns whether it succeeded.
template <typename Read>
void read_values(TokenReader& tokens, const WireSlot& slot, std::size_t count, Read read) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!tokens.advance()) {
      tokens.fail(tokens.at(), "the line ends in " + slot_at(slot.name, slot.place) +
                                   ": expected " + std::to_string(count) + " values, got " +
                                   std::to_string(i));
    }
    const char* first = tokens.at();
    if (!read() || !tokens.is_at_end_of_token()) {
      tokens.fail(first, explain_bad_value(slot.name, tokens.token(first), slot.kind));
    }
  }
}

void read_dense(TokenReader& tokens, const WireSlot& slot, DenseRows& rows) {
  const auto [count, at] = read_count(tokens, slot);
  if (count != 0 && count != rows.width()) {
    tokens.fail(at, explain_bad_width(slot.name, rows.width(), count));
  }
  read_values(tokens, slot, count, [&] {
    float number;
    if (!tokens.read_float(number)) return false;
    rows.push(number);
    return true;
  });
}

void read_sparse(TokenReader& tokens, const WireSlot& slot, SparseValues& values) {
  read_values(tokens, slot, read_count(tokens, slot).value, [&] {
    std::int64_t id;
    if (!tokens.read_id(id)) return false;
    values.push(id);
    return true;
  });
}

}  // namespace

WireParser::WireParser(std::vector<std::string> sparse, std::vector<DenseSlot> dense,
                       std::int64_t padding)
    : sparse_(std::move(sparse)),
      dense_(std::move(dense)),
      widths_(widths_of(dense_)),
      padding_(padding) {}

// One stretch of a parse; no slot is undeclared, and an empty line is a fault.
class WireRun {
 public:
  WireRun(const WireParser& parser, Columns columns)
      : parser_(parser), columns_(std::move(columns)) {}

  void parse_line(const TextLine& line) { parser_.parse_line(line, columns_); }
  const Columns& columns() const { return columns_; }
  std::vector<std::pair<std::string, std::int64_t>> undeclared() const { return {}; }
  std::int64_t num_empty() const { return 0; }

 private:
  const WireParser& parser_;
  Columns columns_;
};

ParsedSlots WireParser::parse(std::span<const std::string_view> segments,
                              std::size_t num_threads) const {
  return parse_lines<WireRun>(*this, segments, num_threads);
}

void WireParser::parse_line(const TextLine& line, Columns& columns) const {
  columns.check_room();
  TokenReader tokens(line);
  std::size_t place = 0;
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    read_dense(tokens, {dense_[i].name, SlotKind::kDense, ++place}, columns.dense(i));
  }
  for (std::size_t i = 0; i < sparse_.size(); ++i) {
    read_sparse(tokens, {sparse_[i], SlotKind::kSparse, ++place}, columns.sparse(i));
  }
  if (tokens.advance()) {
    tokens.fail(tokens.at(), "expected the end of the line behind " + std::to_string(place) +
                                 " slots, got " + quoted(tokens.token(tokens.at())));
  }
  columns.end_sample();
}

}  // namespace fleetrec
