// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/number.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace fleetrec {
namespace {

namespace in = number_internal;

const char* skip_digits(const char* at, const char* end) {
  while (at < end && *at >= '0' && *at <= '9') ++at;
  return at;
}

// Whether a nonzero number of [digits][.digits] with this exponent is at least 1. Asked only of
// numbers that a double cannot hold, so it distinguishes the too large from the too small.
bool is_large(const char* at, const char* end, std::int64_t exponent) {
  const char* point = skip_digits(at, end);
  const char* first = at;
  while (first < end && (*first == '0' || *first == '.')) ++first;
  // The power of ten of the first digit that is not zero.
  const std::int64_t power = first < point ? point - first - 1 : point - first;
  return power + exponent >= 0;
}

// `unsigned_text` is known to be a decimal number.
double to_double(const char* unsigned_text, const char* end) {
  double magnitude = 0.0;
  const auto [stop, error] = std::from_chars(unsigned_text, end, magnitude);
  if (error != std::errc::result_out_of_range) return magnitude;
  // from_chars says the same of both and leaves the result alone.
  const char* mantissa_end = unsigned_text;
  while (mantissa_end < end && (*mantissa_end | 0x20) != 'e') ++mantissa_end;
  std::int64_t exponent = 0;
  in::scan_exponent(mantissa_end, end, exponent);
  return is_large(unsigned_text, mantissa_end, exponent) ? std::numeric_limits<double>::infinity()
                                                         : 0.0;
}

}  // namespace

namespace number_internal {

// Byte by byte with a check: more digits than are safe, though leading zeros may be why.
const char* scan_long_id(const char* at, const char* end, std::int64_t& id) {
  const bool is_negative = *at == '-';
  if (is_sign(*at)) ++at;
  const std::uint64_t max_magnitude =
      is_negative ? kMinIdMagnitude : std::numeric_limits<std::uint64_t>::max();
  std::uint64_t magnitude = 0;
  for (; at < end && *at >= '0' && *at <= '9'; ++at) {
    const auto digit = static_cast<std::uint64_t>(*at - '0');
    if (magnitude > (max_magnitude - digit) / 10) return nullptr;
    magnitude = magnitude * 10 + digit;
  }
  id = static_cast<std::int64_t>(is_negative ? 0 - magnitude : magnitude);
  return at;
}

const char* scan_long_float(const char* at, const char* end, float& number) {
  const bool is_negative = *at == '-';
  const double magnitude = to_double(at + (is_sign(*at) ? 1 : 0), end);
  if (magnitude >= kFloatOverflow) return nullptr;
  number = static_cast<float>(is_negative ? -magnitude : magnitude);
  return end;
}

}  // namespace number_internal

bool is_integer_text(std::string_view text) {
  const char* end = text.data() + text.size();
  const char* at = text.data() + (!text.empty() && in::is_sign(text[0]) ? 1 : 0);
  return at < end && skip_digits(at, end) == end;
}

bool is_decimal_text(std::string_view text) {
  const char* end = text.data() + text.size();
  const char* at = text.data() + (!text.empty() && in::is_sign(text[0]) ? 1 : 0);
  const char* stop = skip_digits(at, end);
  std::ptrdiff_t num_digits = stop - at;
  if (stop < end && *stop == '.') {
    const char* decimals = stop + 1;
    stop = skip_digits(decimals, end);
    num_digits += stop - decimals;
  }
  std::int64_t exponent = 0;
  return num_digits > 0 && in::scan_exponent(stop, end, exponent) == end;
}

}  // namespace fleetrec
