// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/served.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "fleetrec/parallel.h"
#include "fleetrec/table/vector_math.h"

namespace fleetrec {
namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::size_t kNumParts = 32;

std::uint64_t to_id(std::int64_t id) { return static_cast<std::uint64_t>(id); }

}  // namespace

void check_held(const Table& table, std::span<const std::int64_t> ids) {
  for (const std::int64_t id : ids) {
    if (!table.is_in_range(to_id(id))) {
      throw std::invalid_argument("table " + table.options().name + ": id " +
                                  std::to_string(to_id(id)) + " lies out of range");
    }
    if (!table.holds(table.place(to_id(id)).bucket)) {
      throw std::invalid_argument("table " + table.options().name + ": the row of id " +
                                  std::to_string(to_id(id)) + " is held by another server");
    }
  }
}

void read_rows(Table& table, std::span<const std::int64_t> ids, Missing missing,
               std::span<float> weights, std::span<std::uint8_t> is_there) {
  const std::size_t dim = table.layout().dim;
  if (weights.size() != ids.size() * dim || is_there.size() != ids.size()) {
    throw std::invalid_argument("expected one row per id");
  }
  check_held(table, ids);
  const bool makes_all =
      missing == Missing::kAsNew && table.options().admission.kind == AdmissionKind::kAlways;
  const std::lock_guard lock(table.mutex());
  parallel_for((ids.size() + kBlock - 1) / kBlock, [&](std::size_t block) {
    const std::size_t last = std::min((block + 1) * kBlock, ids.size());
    for (std::size_t i = block * kBlock; i < last; ++i) {
      const std::uint64_t id = to_id(ids[i]);
      const std::span row(weights.data() + i * dim, dim);
      const Row found = table.find(id, table.place(id));
      is_there[i] = found || makes_all ? 1 : 0;
      if (found) {
        std::ranges::copy(found.weights(table.layout()), row.begin());
      } else if (makes_all) {
        table.fill_new(id, row);
      } else {
        std::ranges::fill(row, 0.0f);
      }
    }
  });
}

void write_rows(Table& table, std::span<const std::int64_t> ids, std::span<const float> weights) {
  const std::size_t dim = table.layout().dim;
  if (weights.size() != ids.size() * dim) throw std::invalid_argument("expected one row per id");
  check_held(table, ids);
  const std::lock_guard lock(table.mutex());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint64_t id = to_id(ids[i]);
    const Place place = table.place(id);
    Row row = table.find(id, place);
    if (!row) row = table.create_now(id, place);
    table.touch(row);
    std::ranges::copy(weights.subspan(i * dim, dim), row.weights());
  }
}

std::size_t remove_rows(Table& table, std::span<const std::int64_t> ids) {
  const std::lock_guard lock(table.mutex());
  std::size_t num_removed = 0;
  for (const std::int64_t signed_id : ids) {
    const std::uint64_t id = to_id(signed_id);
    if (table.is_in_range(id) && table.remove(id, table.place(id))) ++num_removed;
  }
  return num_removed;
}

void count_impressions(Table& table, const Impressions& impressions) {
  const std::size_t size = impressions.ids.size();
  if (impressions.shows.size() != size || impressions.clicks.size() != size) {
    throw std::invalid_argument("expected shows and clicks of every id");
  }
  check_held(table, impressions.ids);
  std::array<std::vector<std::size_t>, kNumParts> parts;  // one thread's buckets each
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t bucket = table.place(to_id(impressions.ids[i])).bucket;
    parts[bucket * kNumParts / kNumBuckets].push_back(i);
  }
  const std::lock_guard lock(table.mutex());
  // All of a row that may have to be copied for a cut.
  const std::size_t num_floats =
      table.cut_content() ? table.layout().stride() : RowLayout::kHeaderFloats;
  parallel_for(kNumParts, [&](std::size_t part) {
    const std::vector<std::size_t>& places = parts[part];
    for (std::size_t at = 0; at < places.size(); ++at) {
      if (at + 2 * kAhead < places.size()) {
        table.prefetch_index(to_id(impressions.ids[places[at + 2 * kAhead]]));
      }
      if (at + kAhead < places.size()) {
        const Row ahead = table.peek(table.place(to_id(impressions.ids[places[at + kAhead]])));
        if (ahead) prefetch(ahead.address(), num_floats);
      }
      const std::size_t i = places[at];
      const std::uint64_t id = to_id(impressions.ids[i]);
      const std::uint32_t num_plain =
          impressions.shows[i] - std::min(impressions.shows[i], impressions.clicks[i]);
      for (std::uint32_t n = 0; n < impressions.shows[i]; ++n) {
        const Place place = table.place(id);
        table.count_impression({id, impressions.now, n >= num_plain}, table.find(id, place));
      }
    }
  });
}

}  // namespace fleetrec
