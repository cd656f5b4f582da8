// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/snapshot/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace fleetrec {

WriteFault::WriteFault(const std::filesystem::path& path, int code)
    : std::runtime_error(path.string() + ": " + std::strerror(code)),
      path_(path.string()),
      code_(code) {}

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

int FileDescriptor::release() { return std::exchange(number_, -1); }

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (descriptor_.number() < 0) throw WriteFault(path_, errno);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.number(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw WriteFault(path_, errno);
    }
    offset_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write_all(std::span<const std::span<const std::byte>> pieces) {
  constexpr std::size_t kMaxPieces = 256;  // in one call; systems allow some more
  std::array<iovec, kMaxPieces> vectors;
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min(pieces.size(), kMaxPieces));
    for (std::size_t i = 0; i < some.size(); ++i) {
      vectors[i] = {const_cast<std::byte*>(some[i].data()), some[i].size()};
    }
    ssize_t written = ::writev(descriptor_.number(), vectors.data(), static_cast<int>(some.size()));
    if (written < 0 && errno != EINTR) throw WriteFault(path_, errno);
    written = std::max<ssize_t>(written, 0);
    offset_ += static_cast<std::uint64_t>(written);
    auto left = static_cast<std::size_t>(written);
    while (!pieces.empty() && left >= pieces.front().size()) {
      left -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
    if (left == 0) continue;
    write(pieces.front().subspan(left));  // the system stopped within it
    pieces = pieces.subspan(1);
  }
}

void OutputFile::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno != EINTR) throw WriteFault(path_, errno);
    const auto done = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    offset += done;
    bytes = bytes.subspan(done);
  }
}

void OutputFile::write_back() {
#ifdef SYNC_FILE_RANGE_WRITE
  constexpr std::uint64_t kMinBytes = std::uint64_t{1} << 23;
  if (offset_ - started_ < kMinBytes) return;
  const auto call = [this](std::uint64_t first, std::uint64_t last, unsigned flags) {
    const int result = ::sync_file_range(descriptor_.number(), static_cast<off_t>(first),
                                         static_cast<off_t>(last - first), flags);
    // Systems that cannot do it say so in other ways; a lost page must not go unnoticed.
    if (result != 0 && (errno == EIO || errno == ENOSPC)) throw WriteFault(path_, errno);
  };
  call(started_, offset_, SYNC_FILE_RANGE_WRITE);
  if (started_ > waited_) {
    call(waited_, started_,
         SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  waited_ = started_;
  started_ = offset_;
#endif
}

void OutputFile::sync() {
  if (::fdatasync(descriptor_.number()) != 0) throw WriteFault(path_, errno);
}

void OutputFile::publish(const std::filesystem::path& path) {
  if (::link(path_.c_str(), path.c_str()) != 0) throw WriteFault(path, errno);
  ::unlink(path_.c_str());  // a second name does no harm
  path_ = path;
}

bool OutputFile::try_rewind(std::uint64_t offset) {
  const auto end = static_cast<off_t>(offset);
  if (::ftruncate(descriptor_.number(), end) != 0) return false;
  if (::lseek(descriptor_.number(), end, SEEK_SET) != end) return false;
  offset_ = offset;
  return true;
}

void OutputFile::close() {
  if (::close(descriptor_.release()) != 0) throw WriteFault(path_, errno);
}

InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status = {};
  if (descriptor_.number() < 0 || ::fstat(descriptor_.number(), &status) != 0) {
    throw FormatFault(path_, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw FormatFault(path_, "is no file");
  num_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (offset > num_bytes_ || bytes.size() > num_bytes_ - offset) {
    fail(offset, "the file ends at byte " + std::to_string(num_bytes_) + ", expected " +
                     std::to_string(bytes.size()) + " bytes here");
  }
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(descriptor_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(offset, std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) fail(offset, "the file became shorter while it was read");
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

void sync_directory(const std::filesystem::path& directory) {
  const auto& path = directory.empty() ? std::filesystem::path(".") : directory;
  const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.number() < 0 || ::fsync(descriptor.number()) != 0) throw WriteFault(path, errno);
}

}  // namespace fleetrec
