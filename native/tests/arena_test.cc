// SPDX-License-Identifier: Apache-2.0
// Memory of rows: Arena, and Slab on top of it.
#include "fleetrec/table/arena.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "check.h"
#include "fleetrec/table/slab.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

bool is_zero(std::span<const float> memory) {
  return std::ranges::all_of(memory, [](float value) { return value == 0.0f; });
}

}  // namespace

TEST(an_arena_hands_out_zeroed_memory_that_never_overlaps) {
  Arena arena;
  Random random(4);
  std::vector<std::span<float>> pieces;
  for (int i = 0; i < 600; ++i) {
    const std::size_t size = 1 + random() % 20'000;
    pieces.emplace_back(arena.allocate(size), size);
    CHECK(is_zero(pieces.back()));
    std::ranges::fill(pieces.back(), static_cast<float>(i + 1));
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    CHECK(std::ranges::all_of(pieces[i], [i](float v) { return v == static_cast<float>(i + 1); }));
  }
  CHECK(arena.num_bytes() >= 600 * 10'000 / 2 * sizeof(float));
}

TEST(an_arena_serves_pieces_larger_than_its_blocks_and_can_be_cleared) {
  Arena arena;
  CHECK(arena.num_bytes() == 0);
  constexpr std::size_t kLarge = (std::size_t{1} << 24) + 3;
  float* first = arena.allocate(kLarge);
  first[0] = first[kLarge - 1] = 1.0f;
  CHECK(arena.num_bytes() >= kLarge * sizeof(float));
  arena.clear();
  CHECK(arena.num_bytes() == 0);
  CHECK(is_zero({arena.allocate(100), 100}));
}

TEST(an_arena_counts_all_that_it_can_hand_out) {
  constexpr std::size_t kPiece = 1 << 16;
  Arena arena;
  std::size_t num_handed_out = 0;
  arena.allocate(kPiece);
  for (const std::size_t taken = arena.num_bytes(); arena.num_bytes() == taken;) {
    num_handed_out += kPiece * sizeof(float);
    CHECK(num_handed_out <= arena.num_bytes());
    arena.allocate(kPiece);
  }
}

TEST(threads_may_share_an_arena) {
  Arena arena;
  constexpr std::size_t kSize = 100;
  std::vector<std::vector<float*>> pieces(4);
  {
    std::vector<std::jthread> threads;
    for (auto& own : pieces) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          own.push_back(arena.allocate(kSize));
          std::fill_n(own.back(), kSize, 1.0f);
        }
      });
    }
  }
  std::set<float*> all;
  for (const auto& own : pieces) all.insert(own.begin(), own.end());
  CHECK(all.size() == 8000);
  float* before = nullptr;
  for (float* piece : all) {
    CHECK(before == nullptr || piece - before >= static_cast<std::ptrdiff_t>(kSize));
    before = piece;
  }
}

TEST(rows_of_a_slab_do_not_overlap_and_never_move) {
  constexpr std::size_t kStride = 9;
  constexpr std::uint32_t kNumRows = 5000;
  Arena arena;
  Slab slab;
  CHECK(!slab.find(0, kStride));
  std::vector<Row> rows;
  for (std::uint32_t i = 0; i < kNumRows; ++i) {
    rows.push_back(slab.provide(i, kStride, arena));
    CHECK(is_zero({rows.back().address(), kStride}));
    std::fill_n(rows.back().weights() - RowLayout::kHeaderFloats, kStride,
                static_cast<float>(i + 1));
  }
  for (std::uint32_t i = 0; i < kNumRows; ++i) {
    CHECK(slab.at(i, kStride) == rows[i] && slab.find(i, kStride) == rows[i]);
    CHECK(slab.provide(i, kStride, arena) == rows[i]);
    const std::span memory(rows[i].address(), kStride);
    CHECK(std::ranges::all_of(memory, [i](float v) { return v == static_cast<float>(i + 1); }));
  }
}

TEST(a_slab_may_be_filled_from_anywhere) {
  constexpr std::size_t kStride = 8;
  Arena arena;
  Slab slab;
  for (const std::uint32_t i : {123'456u, 7u, 8u, 1015u, 1016u, 1017u, 2039u, 2040u}) {
    CHECK(!slab.find(i, kStride) || is_zero({slab.find(i, kStride).address(), kStride}));
    const Row row = slab.provide(i, kStride, arena);
    row.weights()[0] = static_cast<float>(i);
    CHECK(slab.find(i, kStride) == row);
  }
  CHECK(!slab.find(50'000, kStride) && !slab.find(200'000, kStride));
}

}  // namespace fleetrec::testing
