// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/log_segment.h"

#include <algorithm>

namespace fleetrec {

SegmentReader::SegmentReader(const std::filesystem::path& path)
    : file_(path),
      head_(read_log_header(file_)),
      offset_(head_.end),
      next_lsn_(head_.header.first_lsn) {}

const Record* SegmentReader::next() {
  if (offset_ == file_.num_bytes() || !torn_reason_.empty()) return nullptr;
  if (std::string reason = try_read(offset_); !reason.empty()) {
    if (const auto sound = find_sound_record(offset_ + 1)) {
      file_.fail(offset_, "damaged: " + reason + ", and a sound record follows at byte " +
                              std::to_string(*sound));
    }
    torn_reason_ = std::move(reason);
    return nullptr;
  }
  record_ = decode_record(file_, offset_, body_, head_.header.tables);
  if (record_.lsn != next_lsn_) {
    file_.fail(offset_,
               "record " + std::to_string(record_.lsn) + ", expected " + std::to_string(next_lsn_));
  }
  offset_ += kFrameBytes + body_.size();
  ++next_lsn_;
  return &record_;
}

std::string SegmentReader::try_read(std::uint64_t offset) {
  const std::uint64_t num_bytes_left = file_.num_bytes() - offset;
  if (num_bytes_left < kFrameBytes) return "the file ends within a record";
  std::byte frame[kFrameBytes];
  file_.read(offset, frame);
  const std::size_t num_bytes = load<std::uint32_t>(frame);
  if (num_bytes < kRecordHeadBytes || num_bytes > kMaxBodyBytes) {
    return "a record of " + std::to_string(num_bytes) + " bytes";
  }
  if (num_bytes > num_bytes_left - kFrameBytes) return "the file ends within a record";
  body_.resize(num_bytes);
  file_.read(offset + kFrameBytes, body_);
  if (crc_of_record(body_) != load<std::uint32_t>(frame + 4)) return "a wrong checksum";
  return {};
}

// Looks at every byte: the length of a damaged record cannot be trusted.
std::optional<std::uint64_t> SegmentReader::find_sound_record(std::uint64_t offset) {
  constexpr std::uint64_t kWindow = std::uint64_t{1} << 20;
  constexpr std::uint64_t kLook = kFrameBytes + 8;  // the frame and the number behind it
  std::vector<std::byte> window;
  for (; offset + kLook <= file_.num_bytes(); offset += window.size() - kLook + 1) {
    window.resize(std::min(kWindow, file_.num_bytes() - offset));
    file_.read(offset, window);
    for (std::uint64_t i = 0; i + kLook <= window.size(); ++i) {
      const std::uint64_t at = offset + i;
      if (is_plausible(&window[i], file_.num_bytes() - at) && try_read(at).empty()) return at;
    }
  }
  return std::nullopt;
}

// Returns cheaply whether a record of this log, not before the expected one, may begin here.
bool SegmentReader::is_plausible(const std::byte* frame, std::uint64_t num_bytes_left) const {
  const std::uint64_t num_bytes = load<std::uint32_t>(frame);
  const auto lsn = load<std::uint64_t>(frame + kFrameBytes);
  const std::uint64_t max_records = file_.num_bytes() / (kFrameBytes + kRecordHeadBytes);
  return num_bytes >= kRecordHeadBytes && num_bytes <= num_bytes_left - kFrameBytes &&
         lsn >= next_lsn_ && lsn - next_lsn_ <= max_records;
}

}  // namespace fleetrec
