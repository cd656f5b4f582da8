// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/slot_names.h"

#include <algorithm>
#include <stdexcept>

namespace fleetrec {

SlotNames::SlotNames(std::vector<std::string> names) : names_(std::move(names)) {
  for (std::size_t slot = 0; slot < names_.size(); ++slot) {
    const std::string& name = names_[slot];
    if (name.empty()) {
      throw std::invalid_argument("slot names must not be empty, got '' as name " +
                                  std::to_string(slot));
    }
    if (name.find_first_of(": \n") != std::string::npos) {
      throw std::invalid_argument("slot names must hold no ':', blank or newline, got '" + name +
                                  "'");
    }
    if (!index_.emplace(name, static_cast<SlotIndex>(slot)).second) {
      throw std::invalid_argument("slot names must be declared once, got '" + name + "' twice");
    }
  }
}

SlotIndex SlotNames::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? kNoSlot : found->second;
}

SlotMatcher::SlotMatcher(const SlotNames& declared) : declared_(declared) {
  for (std::size_t slot = 0; slot < declared.size(); ++slot) add_key(declared[slot]);
}

SlotMatcher::Key::Key(std::string_view name_and_colon)
    : bytes(name_and_colon.data()), length(name_and_colon.size()) {
  const std::size_t num_head = std::min<std::size_t>(length, 8);
  std::memcpy(&head, bytes, num_head);
  head_mask = num_head == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * num_head)) - 1;
  if (length >= 8) std::memcpy(&tail, bytes + length - 8, 8);
}

void SlotMatcher::add_key(std::string_view name) {
  const std::string& text = texts_.emplace_back(std::string(name) + ':');
  keys_.emplace_back(text);
  after_.push_back(0);
}

SlotIndex SlotMatcher::look_up(const char* at, const char* end) {
  const char* stop = at;
  while (stop < end && *stop != ':' && *stop != ' ') ++stop;
  if (stop >= end || *stop != ':' || stop == at) return kNoSlot;
  const std::string_view name(at, static_cast<std::size_t>(stop - at));
  if (const SlotIndex slot = declared_.find(name); slot != kNoSlot) return slot;
  if (const auto found = undeclared_.find(name); found != undeclared_.end()) return found->second;
  const auto slot = static_cast<SlotIndex>(keys_.size());
  add_key(name);
  undeclared_.emplace(std::string_view(texts_.back()).substr(0, name.size()), slot);
  num_undeclared_.push_back(0);
  return slot;
}

std::vector<std::pair<std::string, std::int64_t>> SlotMatcher::undeclared() const {
  std::vector<std::pair<std::string, std::int64_t>> counts;
  counts.reserve(num_undeclared_.size());
  for (std::size_t i = 0; i < num_undeclared_.size(); ++i) {
    const std::string& text = texts_[declared_.size() + i];
    counts.emplace_back(text.substr(0, text.size() - 1), num_undeclared_[i]);
  }
  return counts;
}

}  // namespace fleetrec
