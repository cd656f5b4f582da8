// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "fleetrec/parallel.h"
#include "fleetrec/snapshot/crc32c.h"
#include "fleetrec/snapshot/log.h"

namespace fleetrec {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{1} << 18;
constexpr std::size_t kChunkBytes = std::size_t{1} << 18;

// A name for the time before the header is complete; what a crash left there is of no use.
std::filesystem::path unfinished(std::filesystem::path path) {
  path += ".new";
  std::error_code ignored;  // creating the file reports it
  std::filesystem::remove(path, ignored);
  return path;
}

// Some pieces of a record's body that follow each other, and the bytes of the body behind them.
struct Chunk {
  std::span<const std::span<const std::byte>> pieces;
  std::uint64_t behind;
};

// Pieces are taken together until they are worth a thread's attention.
std::vector<Chunk> share_out(const Pieces& body, std::uint64_t num_bytes) {
  std::vector<Chunk> chunks;
  std::size_t begin = 0;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    taken += body[i].size();
    if (taken < kChunkBytes && i + 1 < body.size()) continue;
    num_bytes -= taken;
    chunks.push_back({std::span(body).subspan(begin, i + 1 - begin), num_bytes});
    begin = i + 1;
    taken = 0;
  }
  return chunks;
}

std::uint32_t crc_of(std::span<const std::span<const std::byte>> pieces) {
  std::uint32_t crc = 0;
  for (const auto& piece : pieces) crc = crc32c(crc, piece);
  return crc;
}

}  // namespace

LogWriter::LogWriter(const std::filesystem::path& path, LogHeader header)
    : tables_(std::move(header.tables)),
      file_(unfinished(path)),
      next_lsn_(header.first_lsn),
      writing_lsn_(header.first_lsn - 1),
      written_lsn_(header.first_lsn - 1),
      synced_lsn_(header.first_lsn - 1) {
  ByteSink head;
  put_log_header(head, {next_lsn_, tables_});
  try {
    if (header.first_lsn == 0) throw std::invalid_argument("records are numbered from 1");
    file_.write(head.bytes());
    file_.sync();
    file_.publish(path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(file_.path(), ignored);
    throw;
  }
}

std::uint64_t LogWriter::append(Record record) {
  if (body_bytes(record, tables_) >= kLargeBytes && try_write_through(record)) return record.lsn;
  const std::lock_guard lock(buffer_mutex_);
  record.lsn = next_lsn_;
  put_record(buffer_, record, tables_);
  return next_lsn_++;
}

std::uint64_t LogWriter::commit(Durability level) {
  const std::uint64_t wanted = last_lsn();
  const std::lock_guard lock(file_mutex_);
  check_sound();
  if (written_lsn_ < wanted) flush();
  if (level == Durability::kProcess || (synced_lsn_ >= wanted && has_synced_name_)) {
    return level == Durability::kProcess ? written_lsn_ : synced_lsn_;
  }
  is_broken_ = true;  // until it succeeds: after a failure the disk may have dropped the content
  file_.sync();
  if (!has_synced_name_) sync_directory(file_.path().parent_path());
  is_broken_ = false;
  has_synced_name_ = true;
  synced_lsn_ = written_lsn_;
  return synced_lsn_;
}

// Writes a record if no thread uses the file and nothing waits; false if it has to wait. If the
// system refuses, it waits as well, and the next commit reports it.
bool LogWriter::try_write_through(Record& record) {
  const std::unique_lock file_lock(file_mutex_, std::try_to_lock);
  if (!file_lock || is_broken_ || writing_.size() != 0) return false;
  const std::lock_guard lock(buffer_mutex_);
  if (buffer_.size() != 0) return false;
  record.lsn = next_lsn_;
  const Pieces body = lay_out_body(scratch_, record, tables_);
  const std::uint64_t begin = file_.offset();
  try {
    write_through(body);
  } catch (const WriteFault&) {
    is_broken_ = !file_.try_rewind(begin);
    return false;
  }
  written_lsn_ = writing_lsn_ = next_lsn_++;
  return true;
}

// One thread writes while the others sum up; the frame is completed last, so that a record cut off
// before is a torn tail.
void LogWriter::write_through(const Pieces& body) {
  std::uint64_t num_bytes = 0;
  for (const auto& piece : body) num_bytes += piece.size();
  const auto length = static_cast<std::uint32_t>(num_bytes);
  const std::vector<Chunk> chunks = share_out(body, num_bytes);
  std::vector<std::uint32_t> shares(chunks.size());
  auto frame = frame_of(length, 0);
  const std::uint64_t begin = file_.offset();
  parallel_for(1 + chunks.size(), [&](std::size_t task) {
    if (task == 0) {
      file_.write(frame);
      file_.write_all(body);
      return;
    }
    const Chunk& chunk = chunks[task - 1];
    shares[task - 1] = share_of_crc32c(crc_of(chunk.pieces), chunk.behind);
  });
  const auto length_bytes = std::as_bytes(std::span(&length, 1));
  std::uint32_t crc = share_of_crc32c(crc32c(0, length_bytes), num_bytes);
  for (const std::uint32_t share : shares) crc ^= share;
  frame = frame_of(length, crc);
  file_.overwrite(begin, frame);
}

// Moves everything appended so far into the file, or leaves the file as it was.
void LogWriter::flush() {
  {
    const std::lock_guard lock(buffer_mutex_);
    if (writing_.size() == 0) {
      std::swap(writing_, buffer_);
    } else {  // left by a commit that failed
      writing_.put_all(buffer_.bytes());
      buffer_.clear();
    }
    writing_lsn_ = next_lsn_ - 1;
  }
  const std::uint64_t begin = file_.offset();
  try {
    file_.write(writing_.bytes());
  } catch (...) {
    is_broken_ = !file_.try_rewind(begin);
    throw;
  }
  writing_.clear();
  written_lsn_ = writing_lsn_;
}

void LogWriter::check_sound() const {
  if (!is_broken_) return;
  throw std::logic_error(file_.path().string() +
                         ": broken by a failed write; start a new segment after a new snapshot");
}

std::uint64_t LogWriter::last_lsn() const {
  const std::lock_guard lock(buffer_mutex_);
  return next_lsn_ - 1;
}

}  // namespace fleetrec
