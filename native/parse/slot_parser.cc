// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/slot_parser.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "fleetrec/parse/lines.h"
#include "fleetrec/parse/number.h"

namespace fleetrec {
namespace {

// The ids of one sparse slot, sample after sample. They are written to where they will stay if
// every sample has one, which is what most slots are like, and move away otherwise.
class SparseValues {
 public:
  explicit SparseValues(std::span<std::int64_t> home) : ids_(home.data()), capacity_(home.size()) {}

  void push(std::int64_t id) {
    if (num_ids_ == capacity_) [[unlikely]] {
      grow();
    }
    ids_[num_ids_++] = id;
  }

  // Returns the number of ids up to and with this sample.
  std::size_t end_sample(std::int64_t padding) {
    if (num_ids_ == sample_begin_) {
      push(padding);
    } else {
      ++num_seen_;
    }
    return sample_begin_ = num_ids_;
  }

  std::span<const std::int64_t> ids() const { return {ids_, num_ids_}; }
  std::int64_t num_seen() const { return num_seen_; }

 private:
  void grow() {
    auto larger = std::make_unique_for_overwrite<std::int64_t[]>(capacity_ * 2);
    std::copy_n(ids_, num_ids_, larger.get());
    moved_ = std::move(larger);
    ids_ = moved_.get();
    capacity_ *= 2;
  }

  std::int64_t* ids_;
  std::unique_ptr<std::int64_t[]> moved_;  // empty while the ids are at home
  std::size_t num_ids_ = 0;
  std::size_t capacity_;
  std::size_t sample_begin_ = 0;
  std::int64_t num_seen_ = 0;
};

// The rows of one dense slot, written where Python will read them.
class DenseRows {
 public:
  DenseRows(std::span<float> rows, std::size_t width) : row_(rows.data()), width_(width) {}

  // Values beyond the width are only counted; the line's end refuses them.
  void push(float number) {
    if (num_values_ < width_) row_[num_values_] = number;
    ++num_values_;
  }

  bool is_wrong() const { return num_values_ != 0 && num_values_ != width_; }

  void end_sample(float padding) {
    if (num_values_ == 0) {
      std::fill_n(row_, width_, padding);
    } else {
      ++num_seen_;
    }
    row_ += width_;
    num_values_ = 0;
  }

  std::size_t num_values() const { return num_values_; }
  std::size_t width() const { return width_; }
  std::int64_t num_seen() const { return num_seen_; }

 private:
  float* row_;  // of this sample
  std::size_t width_;
  std::size_t num_values_ = 0;  // in this sample
  std::int64_t num_seen_ = 0;
};

bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\v' || byte == '\f';
}

const char* find_blank(const char* at, const char* end) {
  while (at < end && *at != ' ') ++at;
  return at;
}

std::string_view token_at(const char* at, const char* end) {
  return {at, static_cast<std::size_t>(find_blank(at, end) - at)};
}

std::vector<std::string> all_names(std::vector<std::string> sparse,
                                   std::span<const DenseSlot> dense) {
  for (const DenseSlot& slot : dense) sparse.push_back(slot.name);
  return sparse;
}

// One call of SlotParser::parse.
class ParseRun {
 public:
  ParseRun(const SlotParser& parser, std::size_t num_samples);

  void parse_segment(std::size_t segment, std::string_view text);
  ParsedSlots finish();

 private:
  struct Line {
    const char* begin;  // before white space was stripped: columns count from here
    std::size_t segment;
    std::size_t number;
  };

  void parse_line(const Line& line, const char* end, const char* limit);
  const char* parse_token(const char* at, const char* end, const char* limit);
  void end_sample();
  void gather_ids();
  bool has_wrong_width() const;
  [[noreturn]] void throw_bad_token(const Line& line, const char* at, const char* end) const;
  [[noreturn]] void throw_bad_width(const Line& line, const char* at, const char* end) const;
  SlotTextFault::Place place(const Line& line, const char* at) const;

  const SlotParser& parser_;
  SlotMatcher matcher_;
  std::vector<SparseValues> sparse_;
  std::vector<DenseRows> dense_;
  const std::size_t num_sparse_;
  const std::size_t num_declared_;
  const std::size_t num_samples_;
  std::size_t sample_ = 0;
  ParsedSlots parsed_;  // until finish(), the offsets of each slot start from 0
};

ParseRun::ParseRun(const SlotParser& parser, std::size_t num_samples)
    : parser_(parser),
      matcher_(parser.names()),
      num_sparse_(parser.num_sparse()),
      num_declared_(parser.names().size()),
      num_samples_(num_samples),
      parsed_(num_samples, num_sparse_, parser.widths()) {
  sparse_.reserve(num_sparse_);
  for (std::size_t slot = 0; slot < num_sparse_; ++slot) {
    sparse_.emplace_back(std::span(parsed_.ids.get() + slot * num_samples, num_samples));
  }
  dense_.reserve(parsed_.dense.size());
  for (std::size_t i = 0; i < parsed_.dense.size(); ++i) {
    dense_.emplace_back(parsed_.dense[i], parser.widths()[i]);
  }
}

void ParseRun::parse_segment(std::size_t segment, std::string_view text) {
  const char* limit = text.data() + text.size();
  Line line{text.data(), segment, 0};
  while (line.begin < limit) {
    // A mapped file can change under us; what was allocated must hold all the same.
    if (sample_ == num_samples_) throw std::runtime_error("the text changed while it was parsed");
    const auto num_left = static_cast<std::size_t>(limit - line.begin);
    const void* newline = std::memchr(line.begin, '\n', num_left);
    const char* end = newline == nullptr ? limit : static_cast<const char*>(newline);
    parse_line(line, end, limit);
    line.begin = end + 1;
    ++line.number;
  }
}

void ParseRun::parse_line(const Line& line, const char* end, const char* limit) {
  const char* at = line.begin;
  while (at < end && is_space(*at)) ++at;
  while (at < end && is_space(end[-1])) --end;
  if (at == end) ++parsed_.num_empty;
  const char* begin = at;
  matcher_.start_line();
  while (at < end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    const char* stop = parse_token(at, end, limit);
    if (stop == nullptr) throw_bad_token(line, at, end);
    at = stop + 1;
  }
  if (has_wrong_width()) throw_bad_width(line, begin, end);
  end_sample();
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
    sparse_[slot].push(id);
  } else if (slot < num_declared_) {
    float number;
    stop = scan_float(value, end, limit, number);
    if (stop == nullptr) return nullptr;
    dense_[slot - num_sparse_].push(number);
  } else {
    matcher_.count_undeclared(slot);
    return find_blank(value, end);
  }
  if (stop >= end || *stop == ' ') return stop;
  return *stop == ':' ? find_blank(stop, end) : nullptr;
}

bool ParseRun::has_wrong_width() const {
  return std::ranges::any_of(dense_, [](const DenseRows& rows) { return rows.is_wrong(); });
}

void ParseRun::end_sample() {
  std::int64_t* end = parsed_.offsets.data() + 1 + sample_;
  for (SparseValues& values : sparse_) {
    *end = static_cast<std::int64_t>(values.end_sample(parser_.padding()));
    end += num_samples_;
  }
  const auto padding = static_cast<float>(static_cast<double>(parser_.padding()));
  for (DenseRows& rows : dense_) rows.end_sample(padding);
  ++sample_;
}

ParsedSlots ParseRun::finish() {
  if (sample_ != num_samples_) throw std::runtime_error("the text changed while it was parsed");
  auto seen = parsed_.seen.begin();
  for (const SparseValues& values : sparse_) *seen++ = values.num_seen();
  for (const DenseRows& rows : dense_) *seen++ = rows.num_seen();
  parsed_.undeclared = matcher_.undeclared();
  gather_ids();
  return std::move(parsed_);
}

// Slots start one behind the other, and their ids follow if they are not in place already.
void ParseRun::gather_ids() {
  std::int64_t* end = parsed_.offsets.data();
  *end++ = 0;
  std::size_t base = 0;
  for (const SparseValues& values : sparse_) {
    for (std::size_t i = 0; i < num_samples_; ++i) *end++ += static_cast<std::int64_t>(base);
    base += values.ids().size();
  }
  parsed_.num_ids = base;
  // No slot has fewer ids than samples, so the sum tells that none has more.
  if (base == num_sparse_ * num_samples_) return;
  auto gathered = std::make_unique_for_overwrite<std::int64_t[]>(base);
  std::int64_t* ids = gathered.get();
  for (const SparseValues& values : sparse_) ids = std::ranges::copy(values.ids(), ids).out;
  parsed_.ids = std::move(gathered);
}

SlotTextFault::Place ParseRun::place(const Line& line, const char* at) const {
  return {line.segment, line.number, static_cast<std::size_t>(at - line.begin) + 1};
}

void ParseRun::throw_bad_token(const Line& line, const char* at, const char* end) const {
  const std::string_view token = token_at(at, end);
  const std::string_view name = slot_of(token);
  SlotKind kind = SlotKind::kUndeclared;
  // A declared name without ':' is no slot.
  if (name.size() < token.size()) {
    const SlotIndex slot = parser_.names().find(name);
    if (slot != kNoSlot) kind = slot < num_sparse_ ? SlotKind::kSparse : SlotKind::kDense;
  }
  throw SlotTextFault(place(line, at), token, explain_bad_token(token, kind));
}

// Points at the first token, in the order of the line, whose slot has a wrong number of values.
void ParseRun::throw_bad_width(const Line& line, const char* at, const char* end) const {
  for (; at < end; at = find_blank(at, end) + 1) {
    const std::string_view name = slot_of(token_at(at, end));
    const SlotIndex slot = parser_.names().find(name);
    if (slot == kNoSlot || slot < num_sparse_) continue;
    const DenseRows& rows = dense_[slot - num_sparse_];
    if (!rows.is_wrong()) continue;
    throw SlotTextFault(place(line, at), name,
                        explain_bad_width(name, rows.width(), rows.num_values()));
  }
  throw std::logic_error("no token of the line has a wrong number of values");
}

}  // namespace

ParsedSlots::ParsedSlots(std::size_t samples, std::size_t num_sparse,
                         std::span<const std::size_t> widths)
    : num_samples(samples),
      ids(std::make_unique_for_overwrite<std::int64_t[]>(num_sparse * samples)) {
  const std::size_t num_offsets = num_sparse * samples + 1;
  const std::size_t num_slots = num_sparse + widths.size();
  std::size_t num_floats = 0;
  for (const std::size_t width : widths) {
    // Widths come from a job file: their product with the samples must not wrap around.
    constexpr std::size_t kMaxFloats = PTRDIFF_MAX / (2 * sizeof(float));
    if (samples > 0 && width > (kMaxFloats - num_floats) / samples) throw std::bad_alloc();
    num_floats += samples * width;
  }
  shared = std::make_unique_for_overwrite<std::byte[]>(
      (num_offsets + num_slots) * sizeof(std::int64_t) + num_floats * sizeof(float));
  auto* integers = reinterpret_cast<std::int64_t*>(shared.get());
  offsets = {integers, num_offsets};
  seen = {integers + num_offsets, num_slots};
  auto* floats = reinterpret_cast<float*>(integers + num_offsets + num_slots);
  for (const std::size_t width : widths) {
    dense.emplace_back(floats, samples * width);
    floats += samples * width;
  }
}

SlotParser::SlotParser(std::vector<std::string> sparse, std::vector<DenseSlot> dense,
                       std::int64_t padding)
    : num_sparse_(sparse.size()), padding_(padding), names_(all_names(std::move(sparse), dense)) {
  for (const DenseSlot& slot : dense) {
    if (slot.width == 0) {
      throw std::invalid_argument("dense slot '" + slot.name + "' must have a width of at least 1");
    }
    widths_.push_back(slot.width);
  }
}

ParsedSlots SlotParser::parse(std::span<const std::string_view> segments) const {
  std::size_t num_samples = 0;
  for (const std::string_view text : segments) num_samples += count_lines(text);
  ParseRun run(*this, num_samples);
  for (std::size_t i = 0; i < segments.size(); ++i) run.parse_segment(i, segments[i]);
  return run.finish();
}

}  // namespace fleetrec
