// SPDX-License-Identifier: Apache-2.0
// The checksum against its definition, bit by bit.
#include "fleetrec/snapshot/crc32c.h"

#include "check.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

std::uint32_t by_bit(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

}  // namespace

TEST(the_checksum_is_the_defined_one_at_every_length_and_alignment) {
  Random random(11);
  std::vector<std::byte> bytes(20'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 300; ++i) {
    const std::size_t begin = random() % 16;
    // Around the lengths where another way to compute begins, and anywhere.
    const std::size_t length =
        i % 2 == 0 ? 3072 * (random() % 6) + random() % 20 : random() % (bytes.size() - begin);
    const auto part = std::span(bytes).subspan(begin, length);
    CHECK(crc32c(0, part) == by_bit(part));
  }
}

TEST(a_checksum_may_be_continued_anywhere) {
  Random random(12);
  std::vector<std::byte> bytes(10'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 100; ++i) {
    const std::size_t middle = random() % bytes.size();
    const auto all = std::span<const std::byte>(bytes);
    CHECK(crc32c(crc32c(0, all.first(middle)), all.subspan(middle)) == crc32c(0, all));
  }
}

TEST(the_checksum_of_a_whole_is_made_of_the_shares_of_its_pieces) {
  Random random(13);
  std::vector<std::byte> bytes(70'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto all = std::span<const std::byte>(bytes);
  for (int i = 0; i < 50; ++i) {
    std::uint32_t sum = 0;
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t length = std::min<std::size_t>(random() % 30'000, all.size() - begin);
      const std::uint32_t crc = crc32c(0, all.subspan(begin, length));
      begin += length;
      sum ^= share_of_crc32c(crc, all.size() - begin);
    }
    CHECK(sum == crc32c(0, all));
  }
}

}  // namespace fleetrec::testing
