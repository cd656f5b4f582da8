// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define FLEETREC_CRC_INSTRUCTION 1
#include <nmmintrin.h>
#endif

namespace fleetrec {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;

// Entry [k][b]: what byte b contributes when k more bytes follow it.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t by_table(std::uint32_t crc, const std::byte* at, std::size_t num_bytes) {
  for (; num_bytes >= 8; at += 8, num_bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; num_bytes > 0; ++at, --num_bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xFF];
  }
  return crc;
}

// Product of two polynomials modulo that of the sum; the highest bit is the one of x^0.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1) {  // without branches, which could not be predicted
    product ^= b & (0 - (a >> 31));
    b = (b >> 1) ^ (kPolynomial & (0 - (b & 1)));
  }
  return product;
}

// Entry k: x to the power of 8 * 2^k, by which 2^k bytes that follow multiply a sum.
constexpr std::array<std::uint32_t, 64> make_powers() {
  std::array<std::uint32_t, 64> powers{};
  powers[0] = 0x00800000;
  for (std::size_t k = 1; k < 64; ++k) powers[k] = multiply(powers[k - 1], powers[k - 1]);
  return powers;
}

constexpr std::array<std::uint32_t, 64> kPowers = make_powers();

#ifdef FLEETREC_CRC_INSTRUCTION
// The instruction answers three cycles after it began, and one may begin in every cycle: so three
// stretches go side by side, and their sums are put together afterwards.
constexpr std::size_t kStretch = 1024;  // a power of two, of bytes

// What becomes of a sum when zeros follow. That is linear: entry i is the image of bit i.
using Advance = std::array<std::uint32_t, 32>;

constexpr std::uint32_t image(const Advance& advance, std::uint32_t crc) {
  std::uint32_t sum = 0;
  for (std::size_t bit = 0; bit < 32; ++bit) sum ^= (crc >> bit & 1) != 0 ? advance[bit] : 0;
  return sum;
}

// Entry [k][b]: the image of byte b at place k, for a stretch of zeros.
using StretchTables = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr StretchTables make_stretch_tables() {
  Advance advance{};  // by one byte
  for (std::size_t bit = 0; bit < 32; ++bit) {
    const std::uint32_t crc = std::uint32_t{1} << bit;
    advance[bit] = (crc >> 8) ^ kTables[0][crc & 0xFF];
  }
  for (std::size_t num_bytes = 1; num_bytes < kStretch; num_bytes *= 2) {
    Advance twice{};
    for (std::size_t bit = 0; bit < 32; ++bit) twice[bit] = image(advance, advance[bit]);
    advance = twice;
  }
  StretchTables tables{};
  for (std::uint32_t k = 0; k < 4; ++k) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      tables[k][byte] = image(advance, byte << (8 * k));
    }
  }
  return tables;
}

constexpr StretchTables kStretchTables = make_stretch_tables();

std::uint64_t skip_stretch(std::uint64_t crc) {
  std::uint32_t sum = 0;
  for (std::size_t k = 0; k < 4; ++k) sum ^= kStretchTables[k][(crc >> (8 * k)) & 0xFF];
  return sum;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc,
                                                               const std::byte* at,
                                                               std::size_t num_bytes) {
  const auto word_at = [](const std::byte* place) {
    std::uint64_t word;
    std::memcpy(&word, place, sizeof word);
    return word;
  };
  std::uint64_t wide = crc;
  for (; num_bytes >= 3 * kStretch; at += 3 * kStretch, num_bytes -= 3 * kStretch) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kStretch; i += 8) {
      wide = _mm_crc32_u64(wide, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + kStretch + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * kStretch + i));
    }
    wide = skip_stretch(skip_stretch(wide) ^ second) ^ third;
  }
  for (; num_bytes >= 8; at += 8, num_bytes -= 8) wide = _mm_crc32_u64(wide, word_at(at));
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; num_bytes > 0; ++at, --num_bytes) {
    narrow = _mm_crc32_u8(narrow, std::to_integer<std::uint8_t>(*at));
  }
  return narrow;
}
#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
#ifdef FLEETREC_CRC_INSTRUCTION
  if (__builtin_cpu_supports("sse4.2")) return ~by_instruction(~crc, bytes.data(), bytes.size());
#endif
  return ~by_table(~crc, bytes.data(), bytes.size());
}

std::uint32_t share_of_crc32c(std::uint32_t crc, std::uint64_t bytes_behind) {
  for (std::size_t k = 0; bytes_behind != 0; ++k, bytes_behind >>= 1) {
    if ((bytes_behind & 1) != 0) crc = multiply(crc, kPowers[k]);
  }
  return crc;
}

}  // namespace fleetrec
