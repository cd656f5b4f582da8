// SPDX-License-Identifier: Apache-2.0
// Decimal numbers in text that is not NUL-terminated.
//
// Every scan is given two bounds: the number ends before `end`, and bytes up to `limit` may be
// read. When `end < limit` the byte at `end` must not be a digit, which lets eight bytes be looked
// at in one load without asking where the line stops.
//
// A scan returns the first byte behind the number, or nullptr if there is none or it is out of
// range; which of the two it was is worked out again by the code that writes the message.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace fleetrec {

static_assert(std::endian::native == std::endian::little, "the digit loads assume little endian");

// [+-]digits, nothing else.
bool is_integer_text(std::string_view text);

// [+-]digits[.digits][e[+-]digits] with a digit before or behind the point, nothing else.
bool is_decimal_text(std::string_view text);

namespace number_internal {

inline constexpr std::array<std::uint64_t, 8> kPowersOfTen = {1,     10,     100,     1000,
                                                              10000, 100000, 1000000, 10000000};
inline constexpr std::array<double, 23> kExactPowersOfTen = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// Any number of this many digits fits 64 bits.
inline constexpr std::ptrdiff_t kMaxSafeDigits = 19;
inline constexpr std::uint64_t kMaxExactMantissa = std::uint64_t{1} << 53;
inline constexpr std::uint64_t kMinIdMagnitude = std::uint64_t{1} << 63;
// The half-way point between the largest float32 and the next power of two rounds to infinity.
inline constexpr double kFloatOverflow = 0x1.ffffffp+127;

const char* scan_long_id(const char* at, const char* end, std::int64_t& id);
const char* scan_long_float(const char* at, const char* end, float& number);

// The value of eight digits, each already reduced to 0..9, the first one in the lowest byte.
inline std::uint64_t combine_eight_digits(std::uint64_t digits) {
  constexpr std::uint64_t kPairs = 0x000000FF000000FF;
  digits = digits * 10 + (digits >> 8);
  return ((digits & kPairs) * 0x000F424000000064 +
          ((digits >> 16) & kPairs) * 0x0000271000000001) >>
         32;
}

// Appends digits to `value`, modulo 2^64; returns the first byte that is none.
inline const char* scan_digits(const char* at, const char* limit, std::uint64_t& value) {
  while (limit - at >= 8) {
    std::uint64_t chunk;
    std::memcpy(&chunk, at, sizeof chunk);
    chunk ^= 0x3030303030303030;
    // The top bit of each byte above 9. A carry can only spoil bytes behind the first such byte.
    const std::uint64_t stops = ((chunk + 0x7676767676767676) | chunk) & 0x8080808080808080;
    if (stops == 0) {
      value = value * 100000000 + combine_eight_digits(chunk);
      at += 8;
      continue;
    }
    const int num_digits = std::countr_zero(stops) / 8;
    // Moves the digits up so that zeros stand before them; in two steps, as the sum may be 64.
    const std::uint64_t padded = (chunk << 8) << (56 - 8 * num_digits);
    value =
        value * kPowersOfTen[static_cast<std::size_t>(num_digits)] + combine_eight_digits(padded);
    return at + num_digits;
  }
  for (; at < limit && *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + static_cast<std::uint64_t>(*at - '0');
  }
  return at;
}

inline bool is_sign(char byte) { return byte == '-' || byte == '+'; }

// The exponent behind a mantissa, 0 if there is none; nullptr if it has no digits. It saturates
// far outside the range of a double.
inline const char* scan_exponent(const char* at, const char* end, std::int64_t& exponent) {
  constexpr std::int64_t kSaturated = 1'000'000'000'000;
  exponent = 0;
  if (at >= end || (*at | 0x20) != 'e') return at;
  ++at;
  const bool is_negative = at < end && *at == '-';
  if (at < end && is_sign(*at)) ++at;
  const char* digits = at;
  for (; at < end && *at >= '0' && *at <= '9'; ++at) {
    if (exponent < kSaturated) exponent = exponent * 10 + (*at - '0');
  }
  if (is_negative) exponent = -exponent;
  return at == digits ? nullptr : at;
}

}  // namespace number_internal

// An integer of -2^63 .. 2^64-1, kept as its 64 bits.
inline const char* scan_id(const char* at, const char* end, const char* limit, std::int64_t& id) {
  namespace in = number_internal;
  if (at >= end) return nullptr;
  const bool is_negative = *at == '-';
  const char* digits = at + (in::is_sign(*at) ? 1 : 0);
  std::uint64_t magnitude = 0;
  const char* stop = in::scan_digits(digits, limit, magnitude);
  if (stop == digits) return nullptr;
  if (stop - digits > in::kMaxSafeDigits) [[unlikely]] {
    return in::scan_long_id(at, end, id);
  }
  if (is_negative) {
    if (magnitude > in::kMinIdMagnitude) return nullptr;
    magnitude = 0 - magnitude;
  }
  id = static_cast<std::int64_t>(magnitude);
  return stop;
}

// A finite decimal number, rounded to double and then to float as Python and numpy do.
inline const char* scan_float(const char* at, const char* end, const char* limit, float& number) {
  namespace in = number_internal;
  if (at >= end) return nullptr;
  const bool is_negative = *at == '-';
  const char* digits = at + (in::is_sign(*at) ? 1 : 0);
  std::uint64_t mantissa = 0;
  const char* stop = in::scan_digits(digits, limit, mantissa);
  std::ptrdiff_t num_digits = stop - digits;
  std::ptrdiff_t num_decimals = 0;
  if (stop < end && *stop == '.') {
    const char* decimals = stop + 1;
    stop = in::scan_digits(decimals, limit, mantissa);
    num_decimals = stop - decimals;
    num_digits += num_decimals;
  }
  if (num_digits == 0) return nullptr;
  std::int64_t exponent = 0;
  stop = in::scan_exponent(stop, end, exponent);
  if (stop == nullptr) return nullptr;
  exponent -= num_decimals;
  // Mantissa and power are both exact doubles here, so one operation rounds once.
  if (num_digits > in::kMaxSafeDigits || mantissa > in::kMaxExactMantissa || exponent < -22 ||
      exponent > 22) [[unlikely]] {
    return in::scan_long_float(at, stop, number);
  }
  double magnitude = static_cast<double>(mantissa);
  if (exponent < 0) {
    magnitude /= in::kExactPowersOfTen[static_cast<std::size_t>(-exponent)];
  } else {
    magnitude *= in::kExactPowersOfTen[static_cast<std::size_t>(exponent)];
  }
  // At most 2^53 * 1e22, which float32 holds.
  number = static_cast<float>(is_negative ? -magnitude : magnitude);
  return stop;
}

}  // namespace fleetrec
