// SPDX-License-Identifier: Apache-2.0
// The blocks of one shard file, one after the other, each checked before it is handed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "fleetrec/snapshot/shard_format.h"

namespace fleetrec {

struct Block {
  BlockKind kind;
  std::uint64_t offset;  // in the file, for messages
  std::size_t num_entries;
  std::span<const std::byte> content;
};

// Where the columns of a block of rows begin.
struct RowBlock {
  RowBlock(const Block& block, std::size_t dim)
      : ids(block.content.data()),
        last_seen(ids + 8 * block.num_entries),
        shows(last_seen + 4 * block.num_entries),
        clicks(shows + 4 * block.num_entries),
        weights(clicks + 4 * block.num_entries),
        states(weights + 4 * dim * block.num_entries) {}

  const std::byte* ids;
  const std::byte* last_seen;
  const std::byte* shows;
  const std::byte* clicks;
  const std::byte* weights;
  const std::byte* states;
};

class BlockReader {
 public:
  // Throws FormatFault if the header is damaged or impossible.
  explicit BlockReader(const std::filesystem::path& path);

  const InputFile& file() const { return file_; }
  const ShardHeader& header() const { return head_.header; }

  // Returns the next block, valid until the next call; nullptr behind the footer, which then has
  // been found to agree with all blocks. Throws FormatFault.
  const Block* next();

  // So far; of the whole file behind the footer.
  const ShardCounts& counts() const { return counts_; }
  std::uint32_t crc() const { return crc_; }

 private:
  void check_kind(BlockKind kind);
  void check_footer();

  InputFile file_;
  ReadHeader head_;
  RowLayout layout_;
  std::uint64_t offset_;
  std::vector<std::byte> content_;
  Block block_{};
  ShardCounts counts_;
  std::uint32_t crc_;
  BlockKind last_kind_ = BlockKind::kTombstones;
  bool is_done_ = false;
};

}  // namespace fleetrec
