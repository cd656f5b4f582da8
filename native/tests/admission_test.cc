// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/admission.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "check.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

struct Counted {
  std::uint32_t last_seen = 0;
  std::uint16_t show = 0;
  std::uint16_t click = 0;
};

using Model = std::map<std::uint64_t, Counted>;

void check_equal(const Candidates& candidates, const Model& model) {
  CHECK(candidates.size() == model.size());
  std::size_t num_found = 0;
  for (const Candidate& candidate : candidates.entries()) {
    if (candidate.show == 0) continue;
    const Counted& counted = model.at(candidate.id);
    CHECK(candidate.show == counted.show && candidate.click == counted.click);
    CHECK(candidate.last_seen == counted.last_seen);
    ++num_found;
  }
  CHECK(num_found == model.size());
}

// Makes one random change on both sides.
void change(Random& random, Candidates& candidates, Model& model) {
  const std::uint64_t id = random() % 400;
  const auto now = static_cast<std::uint32_t>(random() % 1000);
  const bool is_click = random() % 3 == 0;
  if (random() % 5 == 0 && model.contains(id)) {
    candidates.erase(id);
    model.erase(id);
    return;
  }
  const Candidate& counted = candidates.count(id, now, is_click);
  Counted& expected = model[id];
  ++expected.show;
  if (is_click) ++expected.click;
  expected.last_seen = std::max(expected.last_seen, now);
  CHECK(counted.id == id && counted.show == expected.show && counted.click == expected.click);
}

}  // namespace

TEST(candidates_do_as_a_map_does_under_random_changes) {
  Random random(3);
  Candidates candidates;
  Model model;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 50; ++i) change(random, candidates, model);
    check_equal(candidates, model);
    if (round % 10 != 9) continue;
    const auto time = static_cast<std::uint32_t>(random() % 600);
    const auto num_erased =
        std::erase_if(model, [time](const auto& entry) { return entry.second.last_seen < time; });
    CHECK(candidates.erase_older(time) == num_erased);
    check_equal(candidates, model);
  }
}

TEST(nothing_is_erased_from_no_candidates) {
  Candidates candidates;
  CHECK(candidates.erase_older(5) == 0 && candidates.size() == 0);
}

TEST(counts_of_a_candidate_stop_at_their_end) {
  Candidates candidates;
  for (int i = 0; i < 70'000; ++i) candidates.count(1, 0, true);
  const Candidate& counted = candidates.count(1, 0, true);
  CHECK(counted.show == 65535 && counted.click == 65535 && candidates.size() == 1);
}

TEST(admission_is_by_impressions_or_score) {
  const Admission count{.kind = AdmissionKind::kCount, .threshold = 3.0};
  CHECK(!count.admits({.id = 1, .last_seen = 0, .show = 2, .click = 2}, false));
  CHECK(count.admits({.id = 1, .last_seen = 0, .show = 3, .click = 0}, false));
  const Admission score{
      .kind = AdmissionKind::kScore, .threshold = 2.0, .show_weight = 0.5, .click_weight = 1.5};
  CHECK(!score.admits({.id = 1, .last_seen = 0, .show = 3, .click = 0}, false));
  CHECK(score.admits({.id = 1, .last_seen = 0, .show = 2, .click = 1}, false));
  CHECK_THROWS(std::invalid_argument, admission_kind("none"));
}

TEST(admission_by_probability_admits_about_that_share_and_the_same_ids_again) {
  const Admission tenth{.kind = AdmissionKind::kProbability, .threshold = 0.1, .salt = 5};
  int num_admitted = 0;
  for (std::uint64_t id = 0; id < 20'000; ++id) {
    const Candidate candidate{.id = id, .last_seen = 0, .show = 1, .click = 0};
    num_admitted += tenth.admits(candidate, false) ? 1 : 0;
    CHECK(tenth.admits(candidate, false) == tenth.admits(candidate, false));
  }
  CHECK(num_admitted > 1800 && num_admitted < 2200);
}

TEST(admission_by_ctr_has_the_score_of_the_impression_as_its_probability) {
  const Admission ctr{.kind = AdmissionKind::kCtr, .show_weight = 0.2, .click_weight = 1.0};
  int num_shown = 0;
  for (std::uint64_t id = 0; id < 20'000; ++id) {
    const Candidate candidate{.id = id, .last_seen = 0, .show = 1, .click = 1};
    num_shown += ctr.admits(candidate, false) ? 1 : 0;
    CHECK(ctr.admits(candidate, true));
  }
  CHECK(num_shown > 3800 && num_shown < 4200);
}

}  // namespace fleetrec::testing
