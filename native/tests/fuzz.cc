// SPDX-License-Identifier: Apache-2.0
// Feeds the parsers random bytes for so many seconds, from a seed that is printed: a crash can be
// had again. `native_fuzz [seconds] [seed]`
#include <chrono>
#include <random>

#include "format_garbage.h"

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = std::chrono::seconds(argc > 1 ? std::stoi(argv[1]) : 20);
  const std::uint64_t seed = argc > 2 ? std::stoull(argv[2]) : std::random_device()();
  std::cerr << "seed " << seed << std::endl;
  fleetrec::testing::Random random(seed);
  std::size_t num_texts = 0;
  for (const auto end = Clock::now() + seconds; Clock::now() < end; num_texts += 100) {
    for (int i = 0; i < 25; ++i) {
      fleetrec::testing::feed_garbage(random);
      fleetrec::testing::feed_wire_text(random);
      fleetrec::testing::feed_svm_text(random);
      fleetrec::testing::feed_records(random);
    }
  }
  std::cerr << num_texts << " texts" << std::endl;
}
