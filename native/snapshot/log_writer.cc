// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "fleetrec/snapshot/log.h"

namespace fleetrec {
namespace {

// A name for the time before the header is complete; what a crash left there is of no use.
std::filesystem::path unfinished(std::filesystem::path path) {
  path += ".new";
  std::error_code ignored;  // creating the file tells
  std::filesystem::remove(path, ignored);
  return path;
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
