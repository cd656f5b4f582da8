// SPDX-License-Identifier: Apache-2.0
// Hash of an id. The place of a row and its first weights depend on nothing else.
#pragma once

#include <cstdint>

namespace fleetrec {

inline constexpr std::uint32_t kNumBuckets = 1024;

// The finalizer of splitmix64: every bit of the result depends on every bit of `x`.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The place of an id: a bucket, and a tag of 32 bits for ids within a bucket.
struct Place {
  std::uint32_t bucket;
  std::uint32_t tag;
};

// The first number that splitmix64 draws from the seed `id`.
constexpr std::uint64_t hash_of(std::uint64_t id) { return mix64(id + 0x9E3779B97F4A7C15u); }

constexpr Place place_of(std::uint64_t id) {
  // Not mix64(id) itself: that is what first values are drawn from.
  const std::uint64_t hash = hash_of(id);
  return {static_cast<std::uint32_t>(hash % kNumBuckets), static_cast<std::uint32_t>(hash >> 32)};
}

// The id below `num_rows` that stands for an id. Trained tables depend on it: it must not change.
constexpr std::uint64_t fold_id(std::uint64_t id, std::uint64_t num_rows) {
  return id < num_rows ? id : hash_of(id) % num_rows;
}

}  // namespace fleetrec
