// SPDX-License-Identifier: Apache-2.0
// Damage to files, with and without the right checksums, and what must hold when they are read.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "fleetrec/snapshot/bytes.h"
#include "fleetrec/snapshot/crc32c.h"
#include "fleetrec/snapshot/file.h"
#include "fleetrec/table/rows.h"
#include "making.h"

namespace fleetrec::testing {

using Bytes = std::vector<std::byte>;

// A folder that is gone with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fleetrec-XXXXXX").string();
    CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline Bytes read_bytes(const std::filesystem::path& path) {
  const InputFile file(path);
  Bytes bytes(file.num_bytes());
  file.read(0, bytes);
  return bytes;
}

inline void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  CHECK(stream.good());
}

// Everything that a table holds, in an order of its own.
inline Bytes content_of(const Table& table) {
  ByteSink sink;
  for (const Row& row : sorted_rows(table)) {
    const RowHeader& header = row.header();
    sink.put(header.id());
    sink.put(header.last_seen);
    sink.put(header.show);
    sink.put(header.click);
    sink.put_all(std::span<const float>(row.weights(table.layout())));
    sink.put_all(std::span<const float>(row.state(table.layout())));
  }
  sink.put(std::uint64_t{table.size()});
  for (const Candidate& candidate : sorted_candidates(table)) sink.put(candidate);
  return Bytes(sink.bytes().begin(), sink.bytes().end());
}

inline bool is_empty(const Table& table) {
  return table.size() == 0 && table.num_candidates() == 0;
}

// Shows random ids to a table and moves their rows.
inline void train(Table& table, BatchLookup& lookup, Random& random, std::uint32_t now) {
  const Lists lists = random_lists(random, 1, 30, table.options().num_rows.value_or(200), 3);
  std::vector<float> labels(lists.num_samples);
  for (float& label : labels) label = static_cast<float>(random() % 2);
  lookup.find(lists.view(), {.purpose = Purpose::kTrain, .now = now, .labels = labels});
  lookup.apply(random_floats(random, lists.num_samples * lookup.width()), 0.1f, Changes::kKeep);
}

inline TableChoice random_choice(Random& random) {
  static constexpr const char* kOptimizers[] = {"sgd", "adagrad", "adam", "rowwise_adagrad"};
  TableChoice choice{.dim = 1 + random() % 5, .optimizer = kOptimizers[random() % 4]};
  if (random() % 2 == 0) choice.num_rows = 150;
  if (random() % 2 == 0) choice.admission = {.kind = AdmissionKind::kCount, .threshold = 2.0};
  return choice;
}

// Numbers that counts, lengths and ids should survive.
inline std::uint64_t nasty_number(Random& random) {
  static constexpr std::uint64_t kNasty[] = {
      0,          1,          2,          0x7F,       0xFF,        0xFFFF,
      0x10000,    0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x4000000000000000,
      ~0ull >> 1, ~0ull - 7,  ~0ull};
  return random() % 4 == 0 ? random() : kNasty[random() % std::size(kNasty)];
}

inline std::size_t random_place(Random& random, const Bytes& bytes) {
  return random() % std::max<std::size_t>(bytes.size(), 1);
}

// Puts a number over 1, 2, 4 or 8 bytes.
inline void overwrite(Random& random, Bytes& bytes) {
  const std::size_t width = std::size_t{1} << random() % 4;
  if (bytes.size() < width) return;
  const std::uint64_t number = nasty_number(random);
  // Fields lie at multiples of 4 from the beginning or from the end of a part.
  std::size_t at = random() % (bytes.size() - width + 1);
  if (random() % 2 == 0) at = at / 4 * 4;
  std::memcpy(&bytes[at], &number, width);
}

inline void flip_bit(Random& random, Bytes& bytes) {
  if (!bytes.empty()) bytes[random_place(random, bytes)] ^= std::byte{1} << random() % 8;
}

// Takes a stretch of `other` and inserts it, or puts it over what is there.
inline void splice(Random& random, Bytes& bytes, const Bytes& other) {
  const std::size_t from = random_place(random, other);
  const std::size_t length = std::min<std::size_t>(random() % 400, other.size() - from);
  const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
  const Bytes stretch(first, first + static_cast<std::ptrdiff_t>(length));
  const std::size_t at = random_place(random, bytes);
  if (random() % 2 == 0) {
    const std::size_t room = std::min(length, bytes.size() - at);
    std::copy_n(stretch.begin(), room, bytes.begin() + static_cast<std::ptrdiff_t>(at));
  } else {
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), stretch.begin(), stretch.end());
  }
}

// Damages a file as disks, copies and crashes do: its checksums stay as they were.
inline void damage(Random& random, Bytes& bytes, const Bytes& other) {
  switch (random() % 7) {
    case 0:
      bytes.resize(random_place(random, bytes));
      return;
    case 1:
      splice(random, bytes, other);
      return;
    case 2:
      splice(random, bytes, Bytes(bytes));
      return;
    case 3: {
      const std::size_t at = random_place(random, bytes);
      const std::size_t length = std::min<std::size_t>(random() % 300, bytes.size() - at);
      const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      bytes.erase(first, first + static_cast<std::ptrdiff_t>(length));
      return;
    }
    case 4:
      bytes.resize(random() % 500);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      return;
    case 5:
      overwrite(random, bytes);
      return;
    default:
      for (std::size_t i = 0; i <= random() % 3; ++i) flip_bit(random, bytes);
  }
}

}  // namespace fleetrec::testing
