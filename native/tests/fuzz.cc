// SPDX-License-Identifier: Apache-2.0
// Feeds invalid input to readers for a number of seconds. The seed is printed, so that a crash can
// be reproduced. `native_fuzz TARGET [seconds] [seed]`
#include <chrono>
#include <random>

#include "cells_garbage.h"
#include "format_garbage.h"
#include "log_damage.h"
#include "snapshot_damage.h"

namespace fleetrec::testing {
namespace {

struct Target {
  std::string_view name;
  void (*feed)(Random& random);
};

constexpr Target kTargets[] = {{"parser", &feed_garbage},  {"cells", &feed_cell_garbage},
                               {"wire", &feed_wire_text},  {"svm", &feed_svm_text},
                               {"records", &feed_records}, {"snapshot", &feed_damaged_snapshot},
                               {"log", &feed_damaged_log}};

int run(std::string_view name, std::chrono::seconds seconds, std::uint64_t seed) {
  using Clock = std::chrono::steady_clock;
  for (const Target& target : kTargets) {
    if (target.name != name) continue;
    std::cerr << name << ": seed " << seed << std::endl;
    use_threads(1);  // the files are small: threads would only wait for each other
    Random random(seed);
    std::size_t num_feeds = 0;
    for (const auto end = Clock::now() + seconds; Clock::now() < end; ++num_feeds) {
      target.feed(random);
    }
    std::cerr << num_feeds << " feeds" << std::endl;
    return num_feeds == 0 ? 1 : 0;
  }
  std::cerr << "no target is called '" << name << "'; known:";
  for (const Target& target : kTargets) std::cerr << " " << target.name;
  std::cerr << std::endl;
  return 2;
}

}  // namespace
}  // namespace fleetrec::testing

int main(int argc, char** argv) {
  const auto seconds = std::chrono::seconds(argc > 2 ? std::stoi(argv[2]) : 20);
  const std::uint64_t seed = argc > 3 ? std::stoull(argv[3]) : std::random_device()();
  return fleetrec::testing::run(argc > 1 ? argv[1] : "", seconds, seed);
}
