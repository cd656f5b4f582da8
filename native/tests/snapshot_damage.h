// SPDX-License-Identifier: Apache-2.0
// Damaged snapshots: refused, and the table is empty; or nothing was lost.
#pragma once

#include "allocation.h"
#include "damage.h"
#include "fleetrec/snapshot/snapshot.h"

namespace fleetrec::testing {

// The files of a base and a delta of one table, and what they hold together.
struct SnapshotFiles {
  TableChoice choice;
  std::map<std::string, Bytes> files;  // by path below the folder
  Bytes content;
};

inline const std::vector<std::string>& chain() {
  static const std::vector<std::string> names = {"base", "delta"};
  return names;
}

inline std::vector<std::filesystem::path> chain_in(const std::filesystem::path& folder) {
  return {folder / chain()[0], folder / chain()[1]};
}

inline SnapshotFiles make_snapshot(Random& random) {
  SnapshotFiles made{.choice = random_choice(random), .files = {}, .content = {}};
  const auto table = make_table(made.choice);
  BatchLookup lookup({table}, {{0, 0, Combiner::kSum}});
  const TemporaryFolder folder;
  for (const std::string& name : chain()) {
    train(*table, lookup, random, static_cast<std::uint32_t>(random()));
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t id = random() % 150;
      table->evict(id, table->place(id));
    }
    std::filesystem::create_directory(folder.path() / name);
    Cut cut(*table);
    write_snapshot(*table, cut,
                   {.directory = folder.path() / name,
                    .kind = name == "base" ? SnapshotKind::kBase : SnapshotKind::kDelta,
                    .num_shards = static_cast<std::uint32_t>(1 + random() % 3),
                    .lsn = random()});
    commit_cut(*table, cut);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / name)) {
      made.files[name + "/" + entry.path().filename().string()] = read_bytes(entry.path());
    }
  }
  made.content = content_of(*table);
  return made;
}

// The parts of a shard file, cut by the lengths of the undamaged one.
struct ShardParts {
  Bytes header;               // without its CRC
  std::vector<Bytes> blocks;  // heads without CRC and contents
  Bytes counts;               // of the footer
};

inline ShardParts take_apart(const Bytes& file) {
  const auto part = [&](std::size_t begin, std::size_t end) {
    return Bytes(file.begin() + static_cast<std::ptrdiff_t>(begin),
                 file.begin() + static_cast<std::ptrdiff_t>(end));
  };
  const std::size_t header_bytes = load<std::uint32_t>(&file[12]);
  ShardParts parts{.header = part(0, header_bytes - 4), .blocks = {}, .counts = {}};
  std::size_t at = header_bytes;
  while (at + kFooterBytes < file.size()) {
    const std::size_t end = at + kBlockHeadBytes + load<std::uint32_t>(&file[at + 8]);
    Bytes block = part(at, at + 12);
    const Bytes content = part(at + kBlockHeadBytes, end);
    block.insert(block.end(), content.begin(), content.end());
    parts.blocks.push_back(std::move(block));
    at = end;
  }
  parts.counts = part(at + 8, at + 32);
  return parts;
}

// Puts the parts together with checksums that are right whatever the parts say.
inline Bytes sign(const ShardParts& parts) {
  ByteSink sink;
  sink.put_all(std::span<const std::byte>(parts.header));
  const std::uint32_t header_crc = crc32c(0, parts.header);
  sink.put(header_crc);
  std::uint32_t file_crc = crc_of_crc(0, header_crc);
  for (const Bytes& block : parts.blocks) {
    const std::size_t head = std::min<std::size_t>(block.size(), 12);
    const std::uint32_t crc = crc32c(0, block);
    sink.put_all(std::span<const std::byte>(block).first(head));
    sink.put(crc);
    sink.put_all(std::span<const std::byte>(block).subspan(head));
    file_crc = crc_of_crc(file_crc, crc);
  }
  sink.put(BlockKind::kEnd);
  sink.put(crc32c(file_crc, parts.counts));
  sink.put_all(std::span<const std::byte>(parts.counts));
  sink.put_text(kSnapshotEnd);
  return Bytes(sink.bytes().begin(), sink.bytes().end());
}

// Changes what a file says and signs it again.
inline void forge(Random& random, Bytes& file, const Bytes& other) {
  ShardParts parts = take_apart(file);
  for (std::size_t i = 0; i <= random() % 2; ++i) {
    const std::size_t choice = random() % 8;
    if (choice == 0) {
      overwrite(random, parts.header);
    } else if (choice == 1) {
      overwrite(random, parts.counts);
    } else if (choice == 2) {
      parts.counts = take_apart(other).counts;
    } else if (parts.blocks.empty()) {
      parts.blocks = take_apart(other).blocks;
    } else {
      Bytes& block = parts.blocks[random() % parts.blocks.size()];
      const std::uint64_t number = nasty_number(random);
      if (choice == 3) std::memcpy(&block[random() % 3 * 4], &number, 4);  // kind, count, length
      if (choice == 4) splice(random, block, other);
      if (choice == 5) parts.blocks.push_back(Bytes(block));
      if (choice > 5) overwrite(random, block);
    }
  }
  file = sign(parts);
}

// A table that was read from a file that lies with right checksums is still a table: it can be
// trained, and a snapshot of it reads as what it is.
inline void check_usable(const std::shared_ptr<Table>& table, const TableChoice& choice,
                         Random& random) {
  BatchLookup lookup({table}, {{0, 0, Combiner::kSum}});
  train(*table, lookup, random, 5);
  const TemporaryFolder folder;
  Cut cut(*table);
  write_snapshot(*table, cut, {.directory = folder.path()});
  const auto copy = make_table(choice);
  const std::filesystem::path directories[] = {folder.path()};
  read_snapshot(*copy, directories);
  CHECK(content_of(*copy) == content_of(*table));
}

// Damages one file of a snapshot and reads all.
inline void feed_damaged_snapshot(Random& random) {
  const SnapshotFiles made = make_snapshot(random);
  const TemporaryFolder folder;
  for (const auto& directory : chain_in(folder.path())) {
    std::filesystem::create_directory(directory);
  }
  for (int round = 0; round < 20; ++round) {
    const auto pick = [&] {
      return std::next(made.files.begin(),
                       static_cast<std::ptrdiff_t>(random() % made.files.size()));
    };
    const auto& [name, whole] = *pick();
    Bytes file = whole;
    const bool is_forged = random() % 2 == 0;
    if (is_forged) {
      forge(random, file, pick()->second);
    } else {
      damage(random, file, pick()->second);
    }
    std::size_t num_bytes = 0;
    for (const auto& [other_name, bytes] : made.files) {
      const Bytes& written = other_name == name ? file : bytes;
      write_bytes(folder.path() / other_name, written);
      num_bytes += written.size();
    }
    const auto table = make_table(made.choice);
    const AllocationLimit limit(num_bytes);
    try {
      read_snapshot(*table, chain_in(folder.path()));
    } catch (const FormatFault&) {
      limit.check();
      CHECK(is_empty(*table));
      continue;
    }
    limit.check();
    if (is_forged) {
      check_usable(table, made.choice, random);
    } else {
      CHECK(content_of(*table) == made.content);
    }
  }
}

}  // namespace fleetrec::testing
