// SPDX-License-Identifier: Apache-2.0
// Numbers to little-endian bytes and back.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace fleetrec {

static_assert(std::endian::native == std::endian::little, "files are little endian");

// Leaves new elements unset: a second pass over megabytes would only write zeros.
template <typename T>
struct UnsetAllocator : std::allocator<T> {
  template <typename Other>
  struct rebind {
    using other = UnsetAllocator<Other>;
  };

  template <typename Element>
  void construct(Element* at) noexcept {
    ::new (static_cast<void*>(at)) Element;
  }
  template <typename Element, typename Argument>
  void construct(Element* at, Argument&& argument) noexcept {
    ::new (static_cast<void*>(at)) Element(std::forward<Argument>(argument));
  }
};

class ByteSink {
 public:
  template <typename T>
  void put(const T& value) {
    put_all(std::span<const T>(&value, 1));
  }

  template <typename T>
  void put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!values.empty())
      std::memcpy(extend(values.size_bytes()), values.data(), values.size_bytes());
  }

  void put_text(std::string_view text) { put_all(std::span<const char>(text)); }

  // Overwrites what was put at `offset`.
  template <typename T>
  void set(std::size_t offset, const T& value) {
    std::memcpy(&bytes_[offset], &value, sizeof value);
  }

  // Makes room behind what is there; every byte of it is to be set.
  std::byte* extend(std::size_t num_bytes) {
    bytes_.resize(bytes_.size() + num_bytes);
    return bytes_.data() + bytes_.size() - num_bytes;
  }

  // Forgets what was put behind `offset`.
  void cut(std::size_t offset) { bytes_.resize(offset); }

  void clear() { bytes_.clear(); }
  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte, UnsetAllocator<std::byte>> bytes_;
};

// Reads at any alignment. The caller knows that the bytes are there.
template <typename T>
T load(const std::byte* at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* at, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(at, &value, sizeof value);
}

}  // namespace fleetrec
