// SPDX-License-Identifier: Apache-2.0
// The contract of every registered optimizer.
#include "fleetrec/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "check.h"
#include "making.h"

namespace fleetrec::testing {
namespace {

constexpr std::size_t kDim = 5;
constexpr float kLr = 0.1f;

struct FreshRow {
  FreshRow(const GuardedOptimizer& optimizer, float weight)
      : weights(kDim, weight), state(optimizer.state_size(kDim)) {
    optimizer.init_state(state);
  }

  void update(const GuardedOptimizer& optimizer, std::vector<float> grad) {
    optimizer.update(weights, state, grad, kLr);
  }

  std::vector<float> weights;
  std::vector<float> state;
};

template <typename Visit>
void each_optimizer(const Visit& visit) {
  CHECK(!row_optimizers().empty());
  for (const RowOptimizerInfo& info : row_optimizers()) {
    const std::string name(info.name);
    visit(name, GuardedOptimizer(name, {}, {}));
  }
}

// These pull weights towards zero whatever the gradient is.
bool is_shrinking(const std::string& name) {
  return name.ends_with("w") || name.starts_with("ftrl");
}

}  // namespace

TEST(optimizers_are_sorted_and_none_is_registered_twice) {
  const auto by_name = [](const auto& a, const auto& b) { return a.name >= b.name; };
  CHECK(std::ranges::adjacent_find(row_optimizers(), by_name) == row_optimizers().end());
}

TEST(a_zero_gradient_moves_nothing_in_a_fresh_row) {
  each_optimizer([](const std::string& name, const GuardedOptimizer& optimizer) {
    const float weight = is_shrinking(name) ? 0.0f : 0.25f;
    FreshRow row(optimizer, weight);
    row.update(optimizer, std::vector<float>(kDim, 0.0f));
    CHECK(row.weights == std::vector<float>(kDim, weight));
  });
}

TEST(a_positive_gradient_lowers_weights_and_a_negative_one_raises_them) {
  each_optimizer([](const std::string&, const GuardedOptimizer& optimizer) {
    FreshRow low(optimizer, 0.0f);
    FreshRow high(optimizer, 0.0f);
    for (int step = 0; step < 3; ++step) {
      low.update(optimizer, std::vector<float>(kDim, 0.5f));
      high.update(optimizer, std::vector<float>(kDim, -0.5f));
      CHECK(std::ranges::all_of(low.weights, [](float w) { return w < 0.0f; }));
      CHECK(std::ranges::all_of(high.weights, [](float w) { return w > 0.0f; }));
    }
  });
}

TEST(a_row_that_was_dumped_and_restored_continues_equal) {
  each_optimizer([](const std::string&, const GuardedOptimizer& optimizer) {
    Random random(1);
    FreshRow straight(optimizer, 0.1f);
    for (int step = 0; step < 5; ++step) straight.update(optimizer, random_floats(random, kDim));
    FreshRow resumed(optimizer, 9.0f);
    resumed.weights = straight.weights;
    resumed.state = straight.state;
    for (int step = 0; step < 5; ++step) {
      const auto grad = random_floats(random, kDim);
      straight.update(optimizer, grad);
      resumed.update(optimizer, grad);
      CHECK(resumed.weights == straight.weights && resumed.state == straight.state);
    }
  });
}

TEST(weights_and_state_stay_finite) {
  each_optimizer([](const std::string&, const GuardedOptimizer& optimizer) {
    Random random(2);
    FreshRow row(optimizer, 0.1f);
    for (int step = 0; step < 300; ++step) {
      auto grad = random_floats(random, kDim);
      const float size = step % 3 == 0 ? 1e-20f : 1e3f;
      for (float& g : grad) g *= size;
      row.update(optimizer, grad);
    }
    const auto is_finite = [](float value) { return std::isfinite(value); };
    CHECK(std::ranges::all_of(row.weights, is_finite));
    CHECK(std::ranges::all_of(row.state, is_finite));
  });
}

TEST(adam_corrects_moments_beyond_the_steps_it_keeps) {
  const GuardedOptimizer adam("adam", {}, {});
  FreshRow row(adam, 0.0f);
  for (int step = 0; step < 8300; ++step) {
    const float before = row.weights[0];
    row.update(adam, std::vector<float>(kDim, 1.0f));
    // A constant gradient of one makes steps of the learning rate.
    CHECK(std::abs(before - row.weights[0] - kLr) < 1e-3f);
  }
}

TEST(guards_clip_gradients_and_bound_weights) {
  const GuardedOptimizer clipped("sgd", {}, {.clip_value = 0.5});
  FreshRow row(clipped, 0.0f);
  row.update(clipped, {3.0f, -3.0f, 0.25f, 0.0f, 0.5f});
  CHECK(row.weights == std::vector<float>{-0.05f, 0.05f, -0.025f, 0.0f, -0.05f});

  const GuardedOptimizer normed("sgd", {}, {.clip_norm = 1.0});
  FreshRow scaled(normed, 0.0f);
  scaled.update(normed, {3.0f, 4.0f, 0.0f, 0.0f, 0.0f});
  CHECK(std::abs(scaled.weights[0] + 0.06f) < 1e-7f && std::abs(scaled.weights[1] + 0.08f) < 1e-7f);

  const GuardedOptimizer bounded("sgd", {}, {.min_weight = -0.01, .max_weight = 0.02});
  FreshRow kept(bounded, 0.0f);
  kept.update(bounded, {1.0f, -1.0f, 0.0f, 0.0f, 0.0f});
  CHECK(kept.weights == std::vector<float>{-0.01f, 0.02f, 0.0f, 0.0f, 0.0f});
}

TEST(unknown_names_are_refused) {
  CHECK_THROWS(std::invalid_argument, GuardedOptimizer("none", {}, {}));
  CHECK_THROWS(std::invalid_argument, GuardedOptimizer("sgd", {{"none", 1.0}}, {}));
}

}  // namespace fleetrec::testing
