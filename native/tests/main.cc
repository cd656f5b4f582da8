// SPDX-License-Identifier: Apache-2.0
// Runs all tests, or those whose name contains the first argument.
#include "check.h"

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  std::size_t num_run = 0;
  for (const auto& [name, run] : fleetrec::testing::tests()) {
    if (name.find(wanted) == std::string_view::npos) continue;
    std::cerr << name << std::endl;
    run();
    ++num_run;
  }
  std::cerr << num_run << " tests passed" << std::endl;
  return num_run == 0 ? 1 : 0;
}
