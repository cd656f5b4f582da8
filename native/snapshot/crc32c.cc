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

#ifdef FLEETREC_CRC_INSTRUCTION
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc,
                                                               const std::byte* at,
                                                               std::size_t num_bytes) {
  std::uint64_t wide = crc;
  for (; num_bytes >= 8; at += 8, num_bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
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

}  // namespace fleetrec
