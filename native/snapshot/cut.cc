// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "fleetrec/snapshot/snapshot.h"

namespace fleetrec {
namespace {

bool is_large(Table& table) {
  const std::lock_guard lock(table.mutex());
  return table.size() * table.layout().stride() * sizeof(float) >= CutContent::kPreparedBytes;
}

}  // namespace

Cut::Cut(Table& table, std::uint32_t least) : table_(table), num_tombstones_(kNumBuckets) {
  Arena copies;
  if (is_large(table)) copies.prefault(CutContent::kPreparedBytes);
  const std::lock_guard lock(table.mutex());
  const std::uint32_t version = std::max(table.version(), least);
  if (version >= std::numeric_limits<std::uint32_t>::max() - 1) {
    throw std::logic_error("table " + table.options().name + ": no version is left for a cut");
  }
  content_ =
      std::make_shared<CutContent>(table.buckets(), table.layout(), version, table.cut_content());
  content_->use_memory(copies);
  for (std::size_t b = 0; b < kNumBuckets; ++b) {
    num_tombstones_[b] = table.buckets()[b].tombstones.size();
  }
  stats_ = {table.size(), table.num_candidates(), table.counts()};
  parent_ = table.last_cut();
  num_clears_ = table.num_clears();
  version_ = version;
  table.set_version(version + 1);
  table.set_cut_content(content_);
  table.add_cut();
}

Cut::~Cut() {
  release();
  const std::lock_guard lock(table_.mutex());
  table_.remove_cut();
}

void Cut::release() {
  is_released_ = true;
  const std::lock_guard lock(mutex_);
  let_go();
}

void Cut::let_go() {
  if (!content_) return;
  // Freed behind the lock: to give a gigabyte back takes a while.
  const std::shared_ptr<CutContent> content = std::exchange(content_, nullptr);
  const std::lock_guard lock(table_.mutex());
  table_.set_cut_content(CutContent::without(table_.cut_content(), *content));
}

void commit_cut(Table& table, Cut& cut, std::optional<std::uint64_t> fingerprint) {
  const std::scoped_lock locks(cut.mutex_, table.mutex());
  if (table.num_clears() != cut.num_clears_ || table.last_cut() != cut.parent_) {
    throw std::logic_error("table " + table.options().name +
                           ": was cleared, or another cut was committed, after this cut began");
  }
  if (!cut.fingerprint_ && !fingerprint) {
    throw std::logic_error("table " + table.options().name +
                           ": a cut is committed after its snapshot is written");
  }
  for (auto* other = table.cut_content().get(); other != nullptr; other = other->older().get()) {
    other->supersede();
  }
  for (std::size_t b = 0; b < kNumBuckets; ++b) {
    auto& tombstones = table.buckets()[b].tombstones;
    const auto num_written = static_cast<std::ptrdiff_t>(cut.num_tombstones_[b]);
    tombstones.erase(tombstones.begin(), tombstones.begin() + num_written);
  }
  table.set_last_cut({cut.version_, fingerprint ? *fingerprint : *cut.fingerprint_});
}

}  // namespace fleetrec
