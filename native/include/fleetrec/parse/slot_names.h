// SPDX-License-Identifier: Apache-2.0
// Which slot a token belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fleetrec {

using SlotIndex = std::uint32_t;
inline constexpr SlotIndex kNoSlot = UINT32_MAX;

// The declared names in order, sparse before dense. Unchanging, shared by all runs of a parser.
class SlotNames {
 public:
  // Throws std::invalid_argument if a name is empty, occurs twice, or cannot occur in a file.
  explicit SlotNames(std::vector<std::string> names);
  SlotNames(const SlotNames&) = delete;
  SlotNames& operator=(const SlotNames&) = delete;

  // kNoSlot if it was not declared.
  SlotIndex find(std::string_view name) const;
  std::size_t size() const { return names_.size(); }
  const std::string& operator[](std::size_t slot) const { return names_[slot]; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, SlotIndex> index_;  // views into names_
};

// Finds the slot of token after token. Lines of a file name their slots in much the same order, so
// the name is first compared with those that are likely; a guess only ever saves a lookup and
// cannot change what is found. Undeclared names get the indices behind the declared ones as they
// are met.
class SlotMatcher {
 public:
  struct Match {
    SlotIndex slot;     // kNoSlot if the token has no name
    const char* value;  // just past the first ':'
  };

  explicit SlotMatcher(const SlotNames& declared);

  void start_line() {
    position_ = 0;
    previous_ = kNoSlot;
  }

  // The token starts at `at` and ends at the first blank before `end`; bytes up to `limit` may be
  // read.
  Match match(const char* at, const char* end, const char* limit) {
    SlotIndex slot = position_ < order_.size() ? order_[position_] : kNoSlot;
    if (slot == kNoSlot || !keys_[slot].is_at(at, limit)) {
      slot = guess_from_previous(at, limit);
      if (slot == kNoSlot) slot = look_up(at, end);
      if (slot == kNoSlot) return {kNoSlot, at};
      remember(slot);
    }
    ++position_;
    if (slot != previous_) {
      if (previous_ != kNoSlot) after_[previous_] = slot;
      previous_ = slot;
    }
    return {slot, at + keys_[slot].length};
  }

  // Tokens of the slots that were not declared, in order of first occurrence.
  void count_undeclared(SlotIndex slot) { ++num_undeclared_[slot - declared_.size()]; }
  std::vector<std::pair<std::string, std::int64_t>> undeclared() const;

 private:
  // A name with its ':'. The ':' makes a prefix of a longer name no match, and with it a match
  // never reaches past the line: a name holds no newline and white space is all a line loses.
  struct Key {
    explicit Key(std::string_view name_and_colon);

    bool is_at(const char* at, const char* limit) const {
      if (limit - at < 16) [[unlikely]] {
        return static_cast<std::size_t>(limit - at) >= length &&
               std::memcmp(at, bytes, length) == 0;
      }
      std::uint64_t found;
      std::memcpy(&found, at, sizeof found);
      if ((found & head_mask) != head) return false;
      if (length <= 8) return true;
      if (length > 16) {
        return static_cast<std::size_t>(limit - at) >= length &&
               std::memcmp(at, bytes, length) == 0;
      }
      std::memcpy(&found, at + length - 8, sizeof found);
      return found == tail;
    }

    const char* bytes;
    std::size_t length;
    std::uint64_t head = 0;  // the first eight bytes
    std::uint64_t head_mask = 0;
    std::uint64_t tail = 0;  // the last eight of a name that has as many
  };

  SlotIndex guess_from_previous(const char* at, const char* limit) const {
    if (previous_ == kNoSlot) return kNoSlot;
    if (keys_[previous_].is_at(at, limit)) return previous_;
    const SlotIndex next = after_[previous_];
    return keys_[next].is_at(at, limit) ? next : kNoSlot;
  }

  void remember(SlotIndex slot) {
    if (position_ == order_.size()) order_.push_back(slot);
    order_[position_] = slot;
  }

  SlotIndex look_up(const char* at, const char* end);
  void add_key(std::string_view name);

  const SlotNames& declared_;
  std::deque<std::string> texts_;  // name and ':' of every key; a deque does not move them
  std::vector<Key> keys_;
  std::unordered_map<std::string_view, SlotIndex> undeclared_;  // views into texts_
  std::vector<std::int64_t> num_undeclared_;

  std::vector<SlotIndex> order_;  // by position, the slot that was there in an earlier line
  std::vector<SlotIndex> after_;  // by slot, the other slot that last followed it
  std::size_t position_ = 0;
  SlotIndex previous_ = kNoSlot;
};

}  // namespace fleetrec
