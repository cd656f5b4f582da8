// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/slot_fault.h"

#include "fleetrec/parse/number.h"

namespace fleetrec {
namespace {

std::string explain_form(std::string_view token) {
  if (token.find(':') == std::string_view::npos) {
    return "expected slot:value, got a token without ':'";
  }
  return "expected slot:value, got no slot name before ':'";
}

}  // namespace

// A whole tab-separated line can be one token, so what is shown is cut.
std::string quoted(std::string_view text) {
  constexpr std::size_t kMaxBytes = 80;
  std::string shown("'");
  shown += text.substr(0, kMaxBytes);
  return shown += text.size() > kMaxBytes ? "...'" : "'";
}

std::string_view slot_of(std::string_view token) { return token.substr(0, token.find(':')); }

std::string explain_bad_value(std::string_view slot, std::string_view value, SlotKind kind) {
  const bool is_sparse = kind == SlotKind::kSparse;
  const bool is_number = is_sparse ? is_integer_text(value) : is_decimal_text(value);
  std::string reason = "slot " + quoted(slot) + " is " + (is_sparse ? "sparse" : "dense");
  if (is_sparse) {
    reason += is_number ? ": expected an integer from -2^63 to 2^64-1, got "
                        : ": expected a decimal integer, got ";
  } else {
    reason += is_number ? ": expected a number that float32 can hold (at most 3.4028235e38), got "
                        : ": expected a finite decimal number, got ";
  }
  return reason + (value.empty() ? "nothing" : quoted(value));
}

std::string explain_bad_token(std::string_view token, SlotKind kind) {
  std::string reason;
  if (kind == SlotKind::kUndeclared) {
    reason = explain_form(token);
  } else {
    const std::string_view slot = slot_of(token);
    const std::string_view rest = token.substr(slot.size() + 1);
    reason = explain_bad_value(slot, slot_of(rest), kind);
  }
  if (token.find('\t') != std::string_view::npos) {
    reason += "; tokens are separated by blanks, not tabs";
  }
  return reason;
}

std::string explain_bad_width(std::string_view slot, std::size_t expected, std::size_t got) {
  return "slot " + quoted(slot) + " is dense: expected " + std::to_string(expected) +
         (expected == 1 ? " value" : " values") + " in a line, got " + std::to_string(got);
}

}  // namespace fleetrec
