// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/admission.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "fleetrec/table/id_hash.h"

namespace fleetrec {

double Admission::draw(const Candidate& candidate) const {
  const std::uint64_t bits = mix64(mix64(candidate.id ^ salt) + candidate.show);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

bool Admission::admits(const Candidate& candidate, bool is_click) const {
  switch (kind) {
    case AdmissionKind::kAlways:
      return true;
    case AdmissionKind::kCount:
      return candidate.show >= threshold;
    case AdmissionKind::kProbability:
      return draw(candidate) < threshold;
    case AdmissionKind::kCtr:
      return draw(candidate) < (is_click ? click_weight : show_weight);
    case AdmissionKind::kScore:
      break;
  }
  return show_weight * (candidate.show - candidate.click) + click_weight * candidate.click >=
         threshold;
}

AdmissionKind admission_kind(const std::string& name) {
  if (name == "always") return AdmissionKind::kAlways;
  if (name == "count") return AdmissionKind::kCount;
  if (name == "probability") return AdmissionKind::kProbability;
  if (name == "score") return AdmissionKind::kScore;
  if (name == "ctr") return AdmissionKind::kCtr;
  throw std::invalid_argument("no admission is called '" + name + "'");
}

void Candidates::make_room() {
  if ((size_ + 1) * 4 <= entries_.size() * 3) return;
  rebuild(std::max<std::size_t>(entries_.size() * 2, 4), 0);
}

Candidate Candidates::get(std::uint64_t id) const {
  if (entries_.empty()) return {.id = id, .last_seen = 0, .show = 0, .click = 0};
  Candidate found = entries_[find(id)];
  found.id = id;
  return found;
}

const Candidate& Candidates::count(std::uint64_t id, std::uint32_t now, bool is_click) {
  make_room();
  Candidate& candidate = entries_[find(id)];
  if (candidate.show == 0) {
    candidate.id = id;
    ++size_;
  }
  constexpr auto kMax = std::numeric_limits<std::uint16_t>::max();
  if (candidate.show < kMax) ++candidate.show;
  if (is_click && candidate.click < kMax) ++candidate.click;
  candidate.last_seen = std::max(candidate.last_seen, now);
  return candidate;
}

void Candidates::insert(const Candidate& candidate) {
  make_room();
  entries_[find(candidate.id)] = candidate;
  ++size_;
}

void Candidates::erase(std::uint64_t id) {
  std::size_t hole = find(id);
  for (std::size_t at = (hole + 1) & mask_; entries_[at].show != 0; at = (at + 1) & mask_) {
    const std::size_t home = home_of(entries_[at].id);
    if (((at - home) & mask_) >= ((at - hole) & mask_)) {
      entries_[hole] = entries_[at];
      hole = at;
    }
  }
  entries_[hole] = Candidate{};
  --size_;
}

std::size_t Candidates::erase_older(std::uint32_t time) {
  const std::size_t before = size_;
  const auto is_old = [time](const Candidate& c) { return c.show != 0 && c.last_seen < time; };
  if (std::ranges::any_of(entries_, is_old)) rebuild(entries_.size(), time);
  return before - size_;
}

// The hash's tag also where a table places rows by number: neighbours would make long runs.
std::size_t Candidates::home_of(std::uint64_t id) const { return place_of(id).tag & mask_; }

// Returns where the id is, or where it would be put.
std::size_t Candidates::find(std::uint64_t id) const {
  std::size_t at = home_of(id);
  while (entries_[at].show != 0 && entries_[at].id != id) at = (at + 1) & mask_;
  return at;
}

void Candidates::rebuild(std::size_t capacity, std::uint32_t oldest) {
  std::vector<Candidate> old(capacity);
  old.swap(entries_);
  mask_ = capacity - 1;
  size_ = 0;
  for (const Candidate& candidate : old) {
    if (candidate.show == 0 || candidate.last_seen < oldest) continue;
    entries_[find(candidate.id)] = candidate;
    ++size_;
  }
}

}  // namespace fleetrec
