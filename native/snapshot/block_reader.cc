// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/block_reader.h"

#include <cstring>
#include <string>

#include "fleetrec/snapshot/crc32c.h"

namespace fleetrec {

BlockReader::BlockReader(const std::filesystem::path& path)
    : file_(path),
      head_(read_header(file_)),
      layout_{head_.header.dim, head_.header.state_size},
      offset_(head_.end),
      crc_(crc_of_crc(0, head_.crc)) {}

const Block* BlockReader::next() {
  if (is_done_) return nullptr;
  std::byte head[kBlockHeadBytes];
  file_.read(offset_, head);
  const auto kind = load<BlockKind>(head);
  if (kind == BlockKind::kEnd) {
    check_footer();
    is_done_ = true;
    return nullptr;
  }
  check_kind(kind);
  const std::size_t num_entries = load<std::uint32_t>(head + 4);
  const std::size_t num_bytes = load<std::uint32_t>(head + 8);
  if (num_entries == 0 || num_entries > max_entries(kind, layout_) ||
      num_bytes != num_entries * entry_bytes(kind, layout_)) {
    file_.fail(offset_, "damaged: impossible block of " + std::to_string(num_entries) +
                            " entries in " + std::to_string(num_bytes) + " bytes");
  }
  if (num_bytes > file_.num_bytes() - offset_ - kBlockHeadBytes) {
    file_.fail(offset_, "damaged: the file ends within this block");
  }
  content_.resize(num_bytes);
  file_.read(offset_ + kBlockHeadBytes, content_);
  const auto crc = load<std::uint32_t>(head + 12);
  if (crc32c(crc32c(0, std::span(head).first(12)), content_) != crc) {
    file_.fail(offset_, "damaged: the checksum of this block is wrong");
  }
  crc_ = crc_of_crc(crc_, crc);
  counts_.of(kind) += num_entries;
  block_ = {kind, offset_, num_entries, content_};
  offset_ += kBlockHeadBytes + num_bytes;
  return &block_;
}

void BlockReader::check_kind(BlockKind kind) {
  const bool is_known = kind == BlockKind::kRows || kind == BlockKind::kCandidates ||
                        (kind == BlockKind::kTombstones && header().kind == SnapshotKind::kDelta);
  if (!is_known || kind < last_kind_) {
    file_.fail(offset_, "damaged: a block of kind " +
                            std::to_string(static_cast<std::uint32_t>(kind)) + " here");
  }
  last_kind_ = kind;
}

void BlockReader::check_footer() {
  std::byte footer[kFooterBytes];
  file_.read(offset_, footer);
  crc_ = crc_of_counts(crc_, counts_);
  if (load<std::uint32_t>(footer + 4) != crc_ ||
      load<std::uint64_t>(footer + 8) != counts_.tombstones ||
      load<std::uint64_t>(footer + 16) != counts_.rows ||
      load<std::uint64_t>(footer + 24) != counts_.candidates) {
    file_.fail(offset_, "damaged: the checksum or the counts of the file are wrong");
  }
  if (std::memcmp(footer + 32, kSnapshotEnd.data(), kSnapshotEnd.size()) != 0) {
    file_.fail(offset_ + 32, "damaged: the mark at the end is wrong");
  }
  if (file_.num_bytes() != offset_ + kFooterBytes) {
    file_.fail(offset_ + kFooterBytes, "damaged: there are bytes behind the end");
  }
}

}  // namespace fleetrec
