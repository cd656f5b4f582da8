// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/svm_parser.h"

#include <stdexcept>

#include "fleetrec/parse/parse_lines.h"
#include "fleetrec/parse/tokens.h"

namespace fleetrec {

// One stretch of a parse.
class SvmRun {
 public:
  SvmRun(const SvmParser& parser, Columns columns)
      : declared_(parser.declared_),
        num_labels_(declared_.label_kind == LabelKind::kSparse ? 1 : 0),
        matcher_(parser.names_),
        num_fields_(parser.names_.size()),
        columns_(std::move(columns)) {}

  void parse_line(const TextLine& line) {
    columns_.check_room();
    TokenReader tokens(line);
    matcher_.start_line();
    if (!tokens.advance()) {
      ++num_empty_;
    } else {
      read_label(tokens);
      while (tokens.advance() && *tokens.at() != '#') read_token(tokens, line);
    }
    columns_.end_sample();
  }

  const Columns& columns() const { return columns_; }
  std::vector<std::pair<std::string, std::int64_t>> undeclared() const {
    return matcher_.undeclared();
  }
  std::int64_t num_empty() const { return num_empty_; }

 private:
  void read_label(TokenReader& tokens) {
    const char* first = tokens.at();
    const bool is_sparse = num_labels_ == 1;
    std::int64_t id;
    float number;
    const bool is_read = is_sparse ? tokens.read_id(id) : tokens.read_float(number);
    if (!is_read || !tokens.is_at_end_of_token()) {
      tokens.fail(first, "a line begins with its label: " +
                             explain_bad_value(declared_.label, tokens.token(first),
                                               is_sparse ? SlotKind::kSparse : SlotKind::kDense));
    }
    if (is_sparse) {
      columns_.sparse(0).push(id);
    } else {
      columns_.dense(0).push(number);
    }
  }

  void read_token(TokenReader& tokens, const TextLine& line) {
    const char* first = tokens.at();
    SlotIndex field = 0;
    if (declared_.has_fields) {
      const auto [slot, value] = matcher_.match(first, end_of(tokens), line.limit);
      if (slot == kNoSlot) fail(tokens, first);
      field = slot;
      tokens.move(value);
    }
    std::int64_t id;
    float weight;
    if (!tokens.read_id(id) || !tokens.take_colon() || !tokens.read_float(weight) ||
        !tokens.is_at_end_of_token()) {
      fail(tokens, first);
    }
    if (field < num_fields_) {
      columns_.sparse(num_labels_ + field).push(id, weight);
    } else {
      matcher_.count_undeclared(field);
    }
  }

  static const char* end_of(const TokenReader& tokens) {
    const std::string_view token = tokens.token(tokens.at());
    return token.data() + token.size();
  }

  [[noreturn]] void fail(const TokenReader& tokens, const char* first) const {
    tokens.fail(first, declared_.has_fields
                           ? "expected field:index:value, an integer index and a finite value"
                           : "expected index:value, an integer index and a finite value");
  }

  const SvmParser::Declared& declared_;
  const std::size_t num_labels_;  // 1 if the label is the first sparse slot
  SlotMatcher matcher_;
  const std::size_t num_fields_;
  std::int64_t num_empty_ = 0;
  Columns columns_;
};

SvmParser::SvmParser(Declared declared, std::int64_t padding)
    : declared_(std::move(declared)), padding_(padding), names_(declared_.fields) {
  if (declared_.label_kind == LabelKind::kDense) widths_ = {1};
  if (!declared_.has_fields && names_.size() != 1) {
    throw std::invalid_argument("text without fields fills one slot, got " +
                                std::to_string(names_.size()));
  }
}

ParsedSlots SvmParser::parse(std::span<const std::string_view> segments,
                             std::size_t num_threads) const {
  return parse_lines<SvmRun>(*this, segments, num_threads);
}

ColumnsShape SvmParser::shape(std::size_t num_samples) const {
  const std::size_t num_labels = declared_.label_kind == LabelKind::kSparse ? 1 : 0;
  return {num_samples, num_labels + names_.size(), widths_, padding_, true};
}

}  // namespace fleetrec
