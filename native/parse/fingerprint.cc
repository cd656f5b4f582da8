// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/fingerprint.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace fleetrec {
namespace {

static_assert(std::endian::native == std::endian::little, "the loads assume little endian");

using std::rotr;
using std::uint64_t;

constexpr uint64_t kPrime0 = 0xc3a5c85c97cb3127;
constexpr uint64_t kPrime1 = 0xb492b66fbe98f273;
constexpr uint64_t kPrime2 = 0x9ae16a3b2f90404f;
constexpr std::size_t kBlockBytes = 64;

template <typename Word>
uint64_t load(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint64_t load64(const char* at) { return load<uint64_t>(at); }

uint64_t fold(uint64_t value) { return value ^ (value >> 47); }

uint64_t mix(uint64_t low, uint64_t high, uint64_t factor) {
  const uint64_t first = fold((low ^ high) * factor);
  return fold((high ^ first) * factor) * factor;
}

// A factor that differs with the length.
uint64_t factor_of(std::size_t num_bytes) { return kPrime2 + num_bytes * 2; }

uint64_t hash_up_to_16(std::string_view text) {
  const std::size_t size = text.size();
  const char* end = text.data() + size;
  const uint64_t factor = factor_of(size);
  if (size >= 8) {
    const uint64_t first = load64(text.data()) + kPrime2;
    const uint64_t last = load64(end - 8);
    return mix(rotr(last, 37) * factor + first, (rotr(first, 25) + last) * factor, factor);
  }
  if (size >= 4) {
    const uint64_t first = load<std::uint32_t>(text.data());
    return mix(size + (first << 3), load<std::uint32_t>(end - 4), factor);
  }
  if (size == 0) return kPrime2;
  const auto byte = [&](std::size_t i) { return uint64_t{static_cast<unsigned char>(text[i])}; };
  const uint64_t front = byte(0) + (byte(size / 2) << 8);
  const uint64_t back = size + (byte(size - 1) << 2);
  return fold((front * kPrime2) ^ (back * kPrime0)) * kPrime2;
}

uint64_t hash_17_to_32(std::string_view text) {
  const char* end = text.data() + text.size();
  const uint64_t factor = factor_of(text.size());
  const uint64_t a = load64(text.data()) * kPrime1;
  const uint64_t b = load64(text.data() + 8);
  const uint64_t c = load64(end - 8) * factor;
  const uint64_t d = load64(end - 16) * kPrime2;
  return mix(rotr(a + b, 43) + rotr(c, 30) + d, a + rotr(b + kPrime2, 18) + c, factor);
}

uint64_t hash_33_to_64(std::string_view text) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const uint64_t factor = factor_of(text.size());
  const uint64_t a = load64(begin) * kPrime2;
  const uint64_t b = load64(begin + 8);
  const uint64_t c = load64(end - 8) * factor;
  const uint64_t d = load64(end - 16) * kPrime2;
  const uint64_t outer = rotr(a + b, 43) + rotr(c, 30) + d;
  const uint64_t inner = mix(outer, a + rotr(b + kPrime2, 18) + c, factor);
  const uint64_t e = load64(begin + 16) * factor;
  const uint64_t f = load64(begin + 24);
  const uint64_t g = (outer + load64(end - 32)) * factor;
  const uint64_t h = (inner + load64(end - 24)) * factor;
  return mix(rotr(e + f, 43) + rotr(g, 30) + h, e + rotr(f + a, 18) + g, factor);
}

struct Pair {
  uint64_t first = 0;
  uint64_t second = 0;
};

Pair mix_32_bytes(const char* at, uint64_t first, uint64_t second) {
  const uint64_t last = load64(at + 24);
  first += load64(at);
  second = rotr(second + first + last, 21);
  const uint64_t sum = first + load64(at + 8) + load64(at + 16);
  return {sum + last, second + rotr(sum, 44) + first};
}

// What is known of a long text so far; 64 bytes are taken in at a time.
class LongHash {
 public:
  explicit LongHash(const char* begin) : x_(kSeed * kPrime2 + load64(begin)) {}

  void add(const char* block, uint64_t factor, uint64_t weight) {
    x_ = rotr(x_ + y_ + v_.first + load64(block + 8), 37) * factor;
    y_ = rotr(y_ + v_.second + load64(block + 48), 42) * factor;
    x_ ^= w_.second * weight;
    y_ += v_.first * weight + load64(block + 40);
    z_ = rotr(z_ + w_.first, 33) * factor;
    v_ = mix_32_bytes(block, v_.second * factor, x_ + w_.first);
    w_ = mix_32_bytes(block + 32, z_ + w_.second, y_ + load64(block + 16));
    std::swap(z_, x_);
  }

  // The last 64 bytes overlap those before them; `num_new` is the number of new bytes.
  uint64_t finish(const char* last_block, std::size_t num_new) {
    const uint64_t factor = kPrime1 + ((z_ & 0xff) << 1);
    w_.first += num_new - 1;
    v_.first += w_.first;
    w_.first += v_.first;
    add(last_block, factor, 9);
    return mix(mix(v_.first, w_.first, factor) + fold(y_) * kPrime0 + z_,
               mix(v_.second, w_.second, factor) + x_, factor);
  }

 private:
  static constexpr uint64_t kSeed = 81;

  uint64_t x_;
  uint64_t y_ = kSeed * kPrime1 + 113;
  uint64_t z_ = fold(y_ * kPrime2 + 113) * kPrime2;
  Pair v_;
  Pair w_;
};

uint64_t hash_long(std::string_view text) {
  LongHash hash(text.data());
  const char* end = text.data() + text.size();
  const char* at = text.data();
  for (; end - at > static_cast<std::ptrdiff_t>(kBlockBytes); at += kBlockBytes) {
    hash.add(at, kPrime1, 1);
  }
  return hash.finish(end - kBlockBytes, static_cast<std::size_t>(end - at));
}

}  // namespace

std::uint64_t fingerprint64(std::string_view text) {
  if (text.size() <= 16) return hash_up_to_16(text);
  if (text.size() <= 32) return hash_17_to_32(text);
  if (text.size() <= kBlockBytes) return hash_33_to_64(text);
  return hash_long(text);
}

}  // namespace fleetrec
