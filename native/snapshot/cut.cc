// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <mutex>

#include "fleetrec/snapshot/snapshot.h"

namespace fleetrec {

Cut::Cut(Table& table, std::uint32_t least) {
  const std::lock_guard lock(table.mutex());
  table.set_version(std::max(table.version(), least));
  if (table.version() >= std::numeric_limits<std::uint32_t>::max() - 1) {
    throw std::logic_error("table " + table.options().name + ": no version is left for a cut");
  }
  for (const Bucket& bucket : table.buckets()) num_tombstones_.push_back(bucket.tombstones.size());
  parent_ = table.last_cut();
  num_clears_ = table.num_clears();
  version_ = table.version();
  table.next_version();
}

void Cut::check_current(const Table& table) const {
  if (table.num_clears() != num_clears_ || table.last_cut() != parent_) {
    throw std::logic_error("table " + table.options().name +
                           ": was cleared, or another cut was committed, after this cut began");
  }
}

void commit_cut(Table& table, const Cut& cut, std::optional<std::uint64_t> fingerprint) {
  const std::lock_guard lock(table.mutex());
  cut.check_current(table);
  if (!cut.fingerprint_) {
    throw std::logic_error("table " + table.options().name +
                           ": a cut is committed after its snapshot is written");
  }
  for (std::size_t b = 0; b < kNumBuckets; ++b) {
    auto& tombstones = table.buckets()[b].tombstones;
    const auto num_written = static_cast<std::ptrdiff_t>(cut.num_tombstones_[b]);
    tombstones.erase(tombstones.begin(), tombstones.begin() + num_written);
  }
  table.set_last_cut({cut.version_, fingerprint.value_or(*cut.fingerprint_)});
}

}  // namespace fleetrec
