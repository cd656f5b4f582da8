// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of everything this library writes in binary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fleetrec {

// Continues `crc`, which is 0 for a beginning: crc32c(crc32c(0, a), b) is that of a and b joined.
std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

// The share of a piece in the CRC of a whole, from its own CRC and the number of bytes behind it:
// that of the whole is the XOR of the shares, so that pieces can be summed up side by side.
std::uint32_t share_of_crc32c(std::uint32_t crc, std::uint64_t bytes_behind);

}  // namespace fleetrec
