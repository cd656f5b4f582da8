// SPDX-License-Identifier: Apache-2.0
// Which ids get a row. Until an id is admitted it has a counter and no row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fleetrec {

enum class AdmissionKind { kAlways, kCount, kProbability, kScore, kCtr };

// Counters of an id that has no row.
struct Candidate {
  std::uint64_t id;
  std::uint32_t last_seen;
  std::uint16_t show;  // 0: a free entry; stops at 65535
  std::uint16_t click;
};
static_assert(sizeof(Candidate) == 16);

// A decision is a pure function of the id and its counts, so that replaying gives the same rows.
struct Admission {
  AdmissionKind kind = AdmissionKind::kAlways;
  double threshold = 1.0;  // impressions, probability at each impression, or score; not of kCtr
  double show_weight = 0.1;
  double click_weight = 1.0;
  std::uint64_t salt = 0;

  // `is_click` is about the last impression that was counted: kCtr admits with its score as the
  // probability, and does not count those before.
  bool admits(const Candidate& candidate, bool is_click) const;

 private:
  double draw(const Candidate& candidate) const;
};

// Throws std::invalid_argument for a name that is none of always, count, probability, score, ctr.
AdmissionKind admission_kind(const std::string& name);

// Counters of the ids of one bucket, by open addressing.
class Candidates {
 public:
  // Counts one impression of the id and returns its counter, valid until the next call.
  const Candidate& count(std::uint64_t id, std::uint32_t now, bool is_click);

  // Returns the counter of an id; its `show` is 0 if there is none.
  Candidate get(std::uint64_t id) const;

  // Adds one as it is; its id must not be there, its show not 0.
  void insert(const Candidate& candidate);

  // Drops the counter of an id, which must exist.
  void erase(std::uint64_t id);

  // Drops counters last seen before `time`; returns how many.
  std::size_t erase_older(std::uint32_t time);

  std::size_t size() const { return size_; }
  std::size_t num_bytes() const { return entries_.capacity() * sizeof(Candidate); }
  const std::vector<Candidate>& entries() const { return entries_; }

 private:
  std::size_t home_of(std::uint64_t id) const;
  std::size_t find(std::uint64_t id) const;
  void make_room();
  void rebuild(std::size_t capacity, std::uint32_t oldest);

  std::vector<Candidate> entries_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace fleetrec
