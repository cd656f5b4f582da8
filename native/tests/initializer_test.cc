// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/initializer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "check.h"

namespace fleetrec::testing {
namespace {

constexpr std::size_t kDim = 4;
constexpr std::uint64_t kNumIds = 20'000;

std::vector<float> draw(const Initializer& initializer) {
  std::vector<float> weights(kNumIds * kDim);
  for (std::uint64_t id = 0; id < kNumIds; ++id) {
    initializer.fill(id, std::span(weights).subspan(id * kDim, kDim));
  }
  return weights;
}

struct Moments {
  explicit Moments(const std::vector<float>& values) {
    const auto count = static_cast<double>(values.size());
    for (const float value : values) mean += value / count;
    for (const float value : values) deviation += (value - mean) * (value - mean) / count;
    deviation = std::sqrt(deviation);
  }

  double mean = 0.0;
  double deviation = 0.0;
};

}  // namespace

TEST(first_weights_are_a_function_of_salt_and_id) {
  for (const char* name : {"constant", "uniform", "normal", "truncated_normal"}) {
    const Initializer initializer{initial_kind(name), 0.5, 0.1, 42};
    CHECK(draw(initializer) == draw(initializer));
  }
  const Initializer one{InitialKind::kUniform, 0.0, 1.0, 1};
  const Initializer two{InitialKind::kUniform, 0.0, 1.0, 2};
  CHECK(draw(one) != draw(two));
}

TEST(a_wider_row_begins_with_the_weights_of_a_narrower_one) {
  const Initializer initializer{InitialKind::kNormal, 0.0, 1.0, 42};
  std::vector<float> narrow(3);
  std::vector<float> wide(8);
  initializer.fill(9, narrow);
  initializer.fill(9, wide);
  CHECK(std::ranges::equal(narrow, std::span(wide).first(3)));
}

TEST(a_constant_is_constant) {
  const auto weights = draw({InitialKind::kConstant, 0.25, 3.0, 1});
  CHECK(std::ranges::all_of(weights, [](float w) { return w == 0.25f; }));
}

TEST(uniform_weights_fill_their_range) {
  const auto weights = draw({InitialKind::kUniform, 1.0, 0.5, 1});
  const auto [low, high] = std::ranges::minmax(weights);
  CHECK(low >= 0.5f && low < 0.501f && high <= 1.5f && high > 1.499f);
  CHECK(std::abs(Moments(weights).deviation - 0.5 / std::sqrt(3.0)) < 0.003);
}

TEST(normal_weights_have_their_mean_and_deviation) {
  const Moments moments(draw({InitialKind::kNormal, 1.0, 0.5, 1}));
  CHECK(std::abs(moments.mean - 1.0) < 0.01 && std::abs(moments.deviation - 0.5) < 0.01);
}

TEST(truncated_normal_weights_stay_within_two_deviations) {
  const auto weights = draw({InitialKind::kTruncatedNormal, 1.0, 0.5, 1});
  const auto [low, high] = std::ranges::minmax(weights);
  CHECK(low >= 0.0f && low < 0.01f && high <= 2.0f && high > 1.99f);
  CHECK(std::abs(Moments(weights).deviation - 0.5 * 0.8796) < 0.01);
}

TEST(an_unknown_initializer_is_refused) {
  CHECK_THROWS(std::invalid_argument, initial_kind("none"));
}

}  // namespace fleetrec::testing
