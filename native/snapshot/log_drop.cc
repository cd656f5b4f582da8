// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/log.h"
#include "fleetrec/snapshot/log_segment.h"

namespace fleetrec {

std::vector<std::filesystem::path> drop_segments(std::span<const std::filesystem::path> segments,
                                                 std::uint64_t lsn) {
  std::vector<std::uint64_t> firsts;
  for (const auto& segment : segments) {
    firsts.push_back(SegmentReader(segment).header().first_lsn);
    if (firsts.size() > 1 && firsts.back() < firsts[firsts.size() - 2]) {
      throw FormatFault(segment, "begins with record " + std::to_string(firsts.back()) +
                                     "; the segment before it begins later");
    }
  }
  std::vector<std::filesystem::path> dropped;
  // What a segment ends with is known from the one behind it, so the last always stays.
  for (std::size_t s = 0; s + 1 < segments.size() && firsts[s + 1] - 1 <= lsn; ++s) {
    std::error_code error;
    std::filesystem::remove(segments[s], error);
    if (error) throw WriteFault(segments[s], error.value());
    sync_directory(segments[s].parent_path());  // one by one: a crash must leave no gap
    dropped.push_back(segments[s]);
  }
  return dropped;
}

}  // namespace fleetrec
