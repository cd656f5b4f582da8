// SPDX-License-Identifier: Apache-2.0
// Files that close themselves, and errors that name the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace fleetrec {

// A file that is damaged, or not the one that is needed.
class FormatFault : public std::runtime_error {
 public:
  FormatFault(const std::filesystem::path& path, std::uint64_t offset, const std::string& reason)
      : std::runtime_error(path.string() + ": at byte " + std::to_string(offset) + ": " + reason) {}
  FormatFault(const std::filesystem::path& path, const std::string& reason)
      : std::runtime_error(path.string() + ": " + reason) {}
};

// The system refused to write; carries what Python's OSError wants to know.
class WriteFault : public std::runtime_error {
 public:
  WriteFault(const std::filesystem::path& path, int code);

  const std::string& path() const { return path_; }
  int code() const { return code_; }

 private:
  std::string path_;
  int code_;
};

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  int number() const { return number_; }
  int release();

 private:
  int number_;
};

// A new file. Throws WriteFault, also if there is one already.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);

  void write(std::span<const std::byte> bytes);
  // Writes pieces one behind the other.
  void write_all(std::span<const std::span<const std::byte>> pieces);
  // Writes over what is at `offset`, and continues behind the end.
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  // Starts to move what was written to the disk, and waits while too much of it is on the way. So
  // few pages are dirty at any time: others that write or sync files do not wait for a gigabyte.
  void write_back();
  // Waits until the content is on the disk.
  void sync();
  // Gives the file its final name, in the same folder. Throws WriteFault if that is taken.
  void publish(const std::filesystem::path& path);
  // Cuts off what lies behind `offset` and continues there; false if the system refuses.
  bool try_rewind(std::uint64_t offset);
  void close();

  std::uint64_t offset() const { return offset_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t offset_ = 0;
  std::uint64_t started_ = 0;  // up to here the disk has been asked to write
  std::uint64_t waited_ = 0;   // up to here it has
};

// An existing file. Throws FormatFault if it cannot be read.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);

  std::uint64_t num_bytes() const { return num_bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Fills all of `bytes`; that they lie within the file is checked.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

  [[noreturn]] void fail(std::uint64_t offset, const std::string& reason) const {
    throw FormatFault(path_, offset, reason);
  }

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t num_bytes_ = 0;
};

// Makes the names in a folder last.
void sync_directory(const std::filesystem::path& directory);

}  // namespace fleetrec
