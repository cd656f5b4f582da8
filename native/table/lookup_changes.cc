// SPDX-License-Identifier: Apache-2.0
// The effects of a lookup as columns, copied directly to the destination.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "fleetrec/parallel.h"
#include "fleetrec/table/batch_lookup.h"

namespace fleetrec {

std::span<const BatchLookup::Partition> BatchLookup::partitions_of(std::size_t table) const {
  if (table >= tables_.size()) throw std::invalid_argument("no such table");
  const std::size_t num_partitions = partitions_.size() / tables_.size();
  return std::span(partitions_).subspan(table * num_partitions, num_partitions);
}

std::size_t BatchLookup::num_impressions(std::size_t table) const {
  check_found();
  std::size_t sum = 0;
  for (const Partition& partition : partitions_of(table)) {
    sum += partition.is_frozen ? 0 : partition.items.size();
  }
  return sum;
}

void BatchLookup::copy_impressions(std::size_t table, const LookupContext& context, std::byte* ids,
                                   std::byte* clicks) const {
  if (!context.labels.empty() && context.labels.size() != num_samples_) {
    throw std::invalid_argument("expected one label per sample");
  }
  const auto partitions = partitions_of(table);
  if (num_impressions(table) == 0) return;
  std::vector<std::size_t> begins(1, 0);
  for (const Partition& partition : partitions) {
    begins.push_back(begins.back() + partition.items.size());
  }
  parallel_for(partitions.size(), [&](std::size_t p) {
    std::byte* id = ids + begins[p] * sizeof(std::uint64_t);
    std::byte* click = clicks + begins[p];
    for (const Item& item : partitions[p].items) {
      std::memcpy(id, &item.id, sizeof item.id);
      id += sizeof item.id;
      *click++ = std::byte{is_click(item, context)};
    }
  });
}

std::size_t BatchLookup::num_changes(std::size_t table) const {
  if (!has_changes_) {
    throw std::logic_error("the lookup kept no changes; apply a gradient and keep them");
  }
  std::size_t sum = 0;
  for (const Partition& partition : partitions_of(table)) sum += partition.changes.ids.size();
  return sum;
}

void BatchLookup::copy_changes(std::size_t table, std::byte* ids, std::byte* grads) const {
  const auto partitions = partitions_of(table);
  std::vector<std::size_t> begins(1, 0);
  for (const Partition& partition : partitions) {
    begins.push_back(begins.back() + partition.changes.ids.size());
  }
  const std::size_t id_bytes = sizeof(std::uint64_t);
  const std::size_t grad_bytes = dim_ * sizeof(float);
  parallel_for(partitions.size(), [&](std::size_t p) {
    const TableChanges& changes = partitions[p].changes;
    if (changes.ids.empty()) return;
    std::memcpy(ids + begins[p] * id_bytes, changes.ids.data(), changes.ids.size() * id_bytes);
    std::memcpy(grads + begins[p] * grad_bytes, changes.grads.data(),
                changes.ids.size() * grad_bytes);
  });
}

std::vector<std::span<const std::byte>> BatchLookup::view_changes(std::size_t table) const {
  std::vector<std::span<const std::byte>> pieces;
  if (num_changes(table) == 0) return pieces;
  for (const Partition& partition : partitions_of(table)) {
    pieces.push_back(std::as_bytes(std::span(partition.changes.ids)));
  }
  for (const Partition& partition : partitions_of(table)) {
    pieces.push_back(std::as_bytes(std::span(partition.changes.grads)));
  }
  return pieces;
}

}  // namespace fleetrec
