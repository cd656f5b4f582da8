// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/index.h"

#include <unordered_map>

#include "check.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

// An index, and a map with its expected content. A row's id is its number; the tag
// of an id keeps a few bits only, so that many ids share one.
class Twins {
 public:
  explicit Twins(std::uint32_t num_tags) : num_tags_(num_tags) {}

  void insert(std::uint32_t row) {
    if (model_.emplace(row, tag_of(row)).second) index_.insert(tag_of(row), row);
  }

  void erase(std::uint32_t row) {
    if (model_.erase(row) == 1) index_.erase(tag_of(row), row);
  }

  void check(std::uint32_t num_rows) const {
    CHECK(index_.size() == model_.size());
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      const auto found =
          index_.find(tag_of(row), [&](std::uint32_t other) { return other == row; });
      CHECK(found == (model_.contains(row) ? row : Index::kNone));
      const std::uint32_t peeked = index_.peek(tag_of(row));
      CHECK(peeked == Index::kNone || model_.at(peeked) == tag_of(row));
    }
  }

 private:
  // Multiples leave gaps, and the largest wrap around the end of the entries.
  std::uint32_t tag_of(std::uint32_t row) const { return (row % num_tags_) * 0x9E3779B1u; }

  std::uint32_t num_tags_;
  Index index_;
  std::unordered_map<std::uint32_t, std::uint32_t> model_;
};

}  // namespace

TEST(an_empty_index_finds_nothing) {
  const Index index;
  index.prefetch(3);
  CHECK(index.peek(3) == Index::kNone);
  CHECK(index.find(3, [](std::uint32_t) { return true; }) == Index::kNone);
  CHECK(index.size() == 0 && index.num_bytes() == 0);
}

TEST(an_index_does_as_a_map_does_under_random_changes) {
  constexpr std::uint32_t kNumRows = 300;
  for (const std::uint32_t num_tags : {1u, 3u, 64u, 100'000u}) {
    Random random(num_tags);
    Twins twins(num_tags);
    for (int round = 0; round < 60; ++round) {
      const bool is_growing = round % 3 != 2;
      for (int change = 0; change < 40; ++change) {
        const auto row = static_cast<std::uint32_t>(random() % kNumRows);
        random() % 4 == 0 || !is_growing ? twins.erase(row) : twins.insert(row);
      }
      twins.check(kNumRows);
    }
    for (std::uint32_t row = 0; row < kNumRows; ++row) twins.erase(row);
    twins.check(kNumRows);
  }
}

TEST(tag_zero_and_the_last_tag_are_tags_like_others) {
  Index index;
  index.insert(0, 0);
  index.insert(0xFFFFFFFF, 1);
  index.insert(0xFFFFFFFF, 2);
  const auto find = [&](std::uint32_t tag, std::uint32_t row) {
    return index.find(tag, [row](std::uint32_t other) { return other == row; });
  };
  CHECK(find(0, 0) == 0 && find(0xFFFFFFFF, 1) == 1 && find(0xFFFFFFFF, 2) == 2);
  index.erase(0xFFFFFFFF, 1);
  CHECK(find(0, 0) == 0 && find(0xFFFFFFFF, 1) == Index::kNone && find(0xFFFFFFFF, 2) == 2);
}

}  // namespace fleetrec::testing
