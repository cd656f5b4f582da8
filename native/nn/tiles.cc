// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/nn/tiles.h"

// Compilers without this header do not know of tiles.
#if defined(__x86_64__) && defined(__linux__) && __has_include(<amxbf16intrin.h>)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

// GCC 12 warns of values that its own header leaves uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define FLEETREC_TILES __attribute__((target("avx512f,amx-tile,amx-bf16")))

namespace fleetrec {
namespace {

constexpr std::size_t kHalf = kTileDepth / 2;
constexpr std::size_t kRowBytes = sizeof(Tile) / kTileLines;
static_assert(kHalf == kTileLines, "blocks are turned over in place");

bool processor_has_tiles() {
  constexpr unsigned kAvx512F = 1u << 16;                     // in ebx
  constexpr unsigned kTilesOfBfloat16 = 1u << 22 | 1u << 24;  // in edx
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kAvx512F) != 0 &&
         (edx & kTilesOfBfloat16) == kTilesOfBfloat16;
}

// Linux enables tiles only for processes that request them.
bool system_lets_use_tiles() {
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

using Floats = __m512;

FLEETREC_TILES inline Floats load_row(const MatrixView<const float>& block, std::size_t row) {
  if (row >= block.num_rows) return _mm512_setzero_ps();
  const auto mask = static_cast<__mmask16>((1u << block.num_columns) - 1);
  return _mm512_maskz_loadu_ps(mask, block.data + row * block.row_stride);
}

// Rows become columns.
FLEETREC_TILES inline void transpose(Floats* rows) {
  Floats mixed[kTileLines];
  for (std::size_t i = 0; i < kTileLines; i += 2) {
    mixed[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    mixed[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (std::size_t i = 0; i < kTileLines; i += 4) {
    for (std::size_t j = i; j < i + 2; ++j) {
      rows[2 * j - i] = _mm512_shuffle_ps(mixed[j], mixed[j + 2], 0x44);
      rows[2 * j - i + 1] = _mm512_shuffle_ps(mixed[j], mixed[j + 2], 0xEE);
    }
  }
  for (std::size_t i = 0; i < kTileLines; i += 8) {
    for (std::size_t j = i; j < i + 4; ++j) {
      mixed[j] = _mm512_shuffle_f32x4(rows[j], rows[j + 4], 0x88);
      mixed[j + 4] = _mm512_shuffle_f32x4(rows[j], rows[j + 4], 0xDD);
    }
  }
  for (std::size_t i = 0; i < 8; ++i) {
    rows[i] = _mm512_shuffle_f32x4(mixed[i], mixed[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_f32x4(mixed[i], mixed[i + 8], 0xDD);
  }
}

// The bfloat16 nearest to each number, as the upper half of a float32.
FLEETREC_TILES inline __m512i nearest(Floats numbers) {
  const __m512i bits = _mm512_castps_si512(numbers);
  // A NaN would become a number.
  const __mmask16 is_number = _mm512_cmp_ps_mask(numbers, numbers, _CMP_ORD_Q);
  const __m512i rounded = _mm512_mask_add_epi32(bits, is_number, bits, _mm512_set1_epi32(0x8000));
  return _mm512_and_si512(rounded, _mm512_set1_epi32(-0x10000));
}

// What a piece leaves of a number is exact.
template <std::size_t kNumPieces>
FLEETREC_TILES inline void store_pairs(Floats first, Floats second, PieceTiles<kNumPieces>& tiles,
                                       std::size_t row) {
  for (Tile& tile : tiles) {
    const __m512i low = nearest(first);
    const __m512i high = nearest(second);
    _mm512_store_si512(tile.rows[row].data(), _mm512_or_si512(_mm512_srli_epi32(low, 16), high));
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(low));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(high));
  }
}

// Fills tiles with pairs of two blocks, each of at most 16 rows and columns.
template <std::size_t kNumPieces>
FLEETREC_TILES inline void store_blocks(const MatrixView<const float>& first,
                                        const MatrixView<const float>& second,
                                        PieceTiles<kNumPieces>& tiles) {
  if (first.column_stride == 1) {
    for (std::size_t i = 0; i < kTileLines; ++i) {
      store_pairs(load_row(first, i), load_row(second, i), tiles, i);
    }
    return;
  }
  Floats firsts[kTileLines];
  Floats seconds[kTileLines];
  for (std::size_t i = 0; i < kTileLines; ++i) {
    firsts[i] = load_row(first.transposed(), i);
    seconds[i] = load_row(second.transposed(), i);
  }
  transpose(firsts);
  transpose(seconds);
  for (std::size_t i = 0; i < kTileLines; ++i) store_pairs(firsts[i], seconds[i], tiles, i);
}

// Which pieces of a and b are multiplied: all but those whose product is too small to count. From
// one product to the next, only one side is loaded again.
using PiecePair = std::pair<std::size_t, std::size_t>;
template <std::size_t kNumPieces>
constexpr auto kOrder = std::array<PiecePair, 1>{{{0, 0}}};
template <>
constexpr auto kOrder<2> = std::array<PiecePair, 3>{{{1, 0}, {0, 0}, {0, 1}}};
template <>
constexpr auto kOrder<3> =
    std::array<PiecePair, 6>{{{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 0}, {0, 2}}};

// The instructions name tiles by number: 0 to 3 are sums, 4 and 5 strips of a, 6 and 7 of b.

template <bool kHasTwo>
FLEETREC_TILES inline void load_a(const Tile* first, std::size_t strip) {
  _tile_loadd(4, first, kRowBytes);
  if constexpr (kHasTwo) _tile_loadd(5, first + strip, kRowBytes);
}

template <bool kHasTwo>
FLEETREC_TILES inline void load_b(const Tile* first, std::size_t strip) {
  _tile_loadd(6, first, kRowBytes);
  if constexpr (kHasTwo) _tile_loadd(7, first + strip, kRowBytes);
}

template <bool kTwoRows, bool kTwoColumns>
FLEETREC_TILES inline void add_product() {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kTwoColumns) _tile_dpbf16ps(1, 4, 7);
  if constexpr (kTwoRows) _tile_dpbf16ps(2, 5, 6);
  if constexpr (kTwoRows && kTwoColumns) _tile_dpbf16ps(3, 5, 7);
}

// The product number kI of pieces.
template <std::size_t kI, bool kTwoRows, bool kTwoColumns, std::size_t kNumPieces>
FLEETREC_TILES inline void add_product(const PieceTiles<kNumPieces>& a,
                                       const PieceTiles<kNumPieces>& b, std::size_t strip) {
  constexpr PiecePair now = kOrder<kNumPieces>[kI];
  constexpr PiecePair before = kOrder<kNumPieces>[kI == 0 ? 0 : kI - 1];
  if constexpr (kI == 0 || now.first != before.first) load_a<kTwoRows>(&a[now.first], strip);
  if constexpr (kI == 0 || now.second != before.second) load_b<kTwoColumns>(&b[now.second], strip);
  add_product<kTwoRows, kTwoColumns>();
}

template <bool kTwoRows, bool kTwoColumns, std::size_t kNumPieces, std::size_t... kIs>
FLEETREC_TILES inline void add_products(const PieceTiles<kNumPieces>& a,
                                        const PieceTiles<kNumPieces>& b, std::size_t strip,
                                        std::index_sequence<kIs...> /*all*/) {
  (add_product<kIs, kTwoRows, kTwoColumns>(a, b, strip), ...);
}

template <std::size_t kNumPieces, bool kTwoRows, bool kTwoColumns>
FLEETREC_TILES void multiply_tiles(const PieceTiles<kNumPieces>* a, const PieceTiles<kNumPieces>* b,
                                   std::size_t num_steps, float* c, std::size_t row_stride,
                                   bool adds) {
  const std::size_t bytes = row_stride * sizeof(float);
  float* below = c + kTileLines * row_stride;
  // Compilers do not see what these instructions read.
  asm volatile("" ::: "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (adds) {
    _tile_loadd(0, c, bytes);
    if constexpr (kTwoColumns) _tile_loadd(1, c + kTileLines, bytes);
    if constexpr (kTwoRows) _tile_loadd(2, below, bytes);
    if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, below + kTileLines, bytes);
  }
  for (std::size_t step = 0; step < num_steps; ++step, ++a, ++b) {
    add_products<kTwoRows, kTwoColumns>(*a, *b, num_steps * kNumPieces,
                                        std::make_index_sequence<kOrder<kNumPieces>.size()>());
  }
  _tile_stored(0, c, bytes);
  if constexpr (kTwoColumns) _tile_stored(1, c + kTileLines, bytes);
  if constexpr (kTwoRows) _tile_stored(2, below, bytes);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, below + kTileLines, bytes);
  asm volatile("" ::: "memory");
}

// In the format of the instruction that reads it: all eight tiles at maximum size.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved = {};
  std::array<std::uint16_t, 16> row_bytes = {64, 64, 64, 64, 64, 64, 64, 64};
  std::array<std::uint8_t, 16> num_rows = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileShapes kTileShapes;

FLEETREC_TILES void shape_tiles() { _tile_loadconfig(&kTileShapes); }

FLEETREC_TILES void release_tiles() { _tile_release(); }

}  // namespace

bool has_tiles() {
  static const bool found = processor_has_tiles() && system_lets_use_tiles();
  return found;
}

UseTiles::UseTiles() { shape_tiles(); }

UseTiles::~UseTiles() { release_tiles(); }

template <std::size_t kNumPieces>
FLEETREC_TILES void fill_tiles(const MatrixView<const float>& lines, std::size_t line,
                               std::size_t depth, Side side, PieceTiles<kNumPieces>& tiles) {
  const auto first = lines.block(line, depth, kTileLines, kHalf);
  const auto second = lines.block(line, depth + kHalf, kTileLines, kHalf);
  if (side == Side::kLeft) {
    store_blocks(first, second, tiles);
  } else {
    store_blocks(first.transposed(), second.transposed(), tiles);
  }
}

template <std::size_t kNumPieces>
void multiply_strips(const Strips<kNumPieces>& a, const Strips<kNumPieces>& b, float* c,
                     std::size_t row_stride, bool adds) {
  const bool two_rows = a.num_strips == 2;
  const bool two_columns = b.num_strips == 2;
  const auto run = two_rows ? (two_columns ? multiply_tiles<kNumPieces, true, true>
                                           : multiply_tiles<kNumPieces, true, false>)
                            : (two_columns ? multiply_tiles<kNumPieces, false, true>
                                           : multiply_tiles<kNumPieces, false, false>);
  run(a.first, b.first, a.num_steps, c, row_stride, adds);
}

}  // namespace fleetrec

#else

namespace fleetrec {

bool has_tiles() { return false; }

UseTiles::UseTiles() = default;

UseTiles::~UseTiles() = default;

template <std::size_t kNumPieces>
void fill_tiles(const MatrixView<const float>&, std::size_t, std::size_t, Side,
                PieceTiles<kNumPieces>&) {}

template <std::size_t kNumPieces>
void multiply_strips(const Strips<kNumPieces>&, const Strips<kNumPieces>&, float*, std::size_t,
                     bool) {}

}  // namespace fleetrec

#endif

namespace fleetrec {

template void fill_tiles(const MatrixView<const float>&, std::size_t, std::size_t, Side,
                         PieceTiles<1>&);
template void fill_tiles(const MatrixView<const float>&, std::size_t, std::size_t, Side,
                         PieceTiles<2>&);
template void fill_tiles(const MatrixView<const float>&, std::size_t, std::size_t, Side,
                         PieceTiles<3>&);
template void multiply_strips(const Strips<1>&, const Strips<1>&, float*, std::size_t, bool);
template void multiply_strips(const Strips<2>&, const Strips<2>&, float*, std::size_t, bool);
template void multiply_strips(const Strips<3>&, const Strips<3>&, float*, std::size_t, bool);

}  // namespace fleetrec
