// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/slot_parser.h"

#include <algorithm>
#include <stdexcept>

#include "fleetrec/parse/number.h"
#include "fleetrec/parse/parse_lines.h"
#include "fleetrec/parse/text_line.h"

namespace fleetrec {
namespace {

const char* find_blank(const char* at, const char* end) {
  while (at < end && *at != ' ') ++at;
  return at;
}

std::string_view token_at(const char* at, const char* end) {
  return {at, static_cast<std::size_t>(find_blank(at, end) - at)};
}

// One stretch of a parse.
class ParseRun {
 public:
  ParseRun(const SlotParser& parser, Columns columns)
      : parser_(parser),
        matcher_(parser.names()),
        num_sparse_(parser.num_sparse()),
        num_declared_(parser.names().size()),
        columns_(std::move(columns)) {}

  void parse_line(const TextLine& line);
  const Columns& columns() const { return columns_; }
  std::vector<std::pair<std::string, std::int64_t>> undeclared() const {
    return matcher_.undeclared();
  }
  std::int64_t num_empty() const { return num_empty_; }

 private:
  const char* parse_token(const char* at, const char* end, const char* limit);
  bool has_wrong_width() const;
  [[noreturn]] void throw_bad_token(const TextLine& line, const char* at) const;
  [[noreturn]] void throw_bad_width(const TextLine& line) const;

  const SlotParser& parser_;
  SlotMatcher matcher_;
  const std::size_t num_sparse_;
  const std::size_t num_declared_;
  std::int64_t num_empty_ = 0;
  Columns columns_;
};

void ParseRun::parse_line(const TextLine& line) {
  columns_.check_room();
  if (line.is_empty()) ++num_empty_;
  matcher_.start_line();
  for (const char* at = line.begin; at < line.end;) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    const char* stop = parse_token(at, line.end, line.limit);
    if (stop == nullptr) throw_bad_token(line, at);
    at = stop + 1;
  }
  if (has_wrong_width()) throw_bad_width(line);
  columns_.end_sample();
}

// Returns the blank behind the token, or nullptr if the token is bad.
inline const char* ParseRun::parse_token(const char* at, const char* end, const char* limit) {
  const auto [slot, value] = matcher_.match(at, end, limit);
  if (slot == kNoSlot) return nullptr;
  const char* stop;
  if (slot < num_sparse_) {
    std::int64_t id;
    stop = scan_id(value, end, limit, id);
    if (stop == nullptr) return nullptr;
    columns_.sparse(slot).push(id);
  } else if (slot < num_declared_) {
    float number;
    stop = scan_float(value, end, limit, number);
    if (stop == nullptr) return nullptr;
    columns_.dense(slot - num_sparse_).push(number);
  } else {
    matcher_.count_undeclared(slot);
    return find_blank(value, end);
  }
  if (stop >= end || *stop == ' ') return stop;
  return *stop == ':' ? find_blank(stop, end) : nullptr;
}

bool ParseRun::has_wrong_width() const {
  return std::ranges::any_of(columns_.dense(),
                             [](const DenseRows& rows) { return rows.is_wrong(); });
}

void ParseRun::throw_bad_token(const TextLine& line, const char* at) const {
  const std::string_view token = token_at(at, line.end);
  const std::string_view name = slot_of(token);
  SlotKind kind = SlotKind::kUndeclared;
  // A declared name without ':' is no slot.
  if (name.size() < token.size()) {
    const SlotIndex slot = parser_.names().find(name);
    if (slot != kNoSlot) kind = slot < num_sparse_ ? SlotKind::kSparse : SlotKind::kDense;
  }
  throw SlotTextFault(line.place(at), token, explain_bad_token(token, kind));
}

// Points at the first token, in the order of the line, whose slot has a wrong number of values.
void ParseRun::throw_bad_width(const TextLine& line) const {
  for (const char* at = line.begin; at < line.end; at = find_blank(at, line.end) + 1) {
    const std::string_view name = slot_of(token_at(at, line.end));
    const SlotIndex slot = parser_.names().find(name);
    if (slot == kNoSlot || slot < num_sparse_) continue;
    const DenseRows& rows = columns_.dense()[slot - num_sparse_];
    if (!rows.is_wrong()) continue;
    throw SlotTextFault(line.place(at), name,
                        explain_bad_width(name, rows.width(), rows.num_values()));
  }
  throw std::logic_error("no token of the line has a wrong number of values");
}

}  // namespace

SlotParser::SlotParser(std::vector<std::string> sparse, std::vector<DenseSlot> dense,
                       std::int64_t padding)
    : num_sparse_(sparse.size()),
      widths_(widths_of(dense)),
      padding_(padding),
      names_(all_names(std::move(sparse), dense)) {}

ParsedSlots SlotParser::parse(std::span<const std::string_view> segments,
                              std::size_t num_threads) const {
  return parse_lines<ParseRun>(*this, segments, num_threads);
}

}  // namespace fleetrec
