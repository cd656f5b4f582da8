// SPDX-License-Identifier: Apache-2.0
// A test framework of three macros. The suite needs no more, and so `make test-native` needs no
// download and no system package; googletest would be both.
#pragma once

#include <cstdlib>
#include <iostream>
#include <source_location>
#include <string_view>
#include <vector>

namespace fleetrec::testing {

struct Test {
  std::string_view name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;  // filled before main
  return all;
}

struct RegisterTest {
  RegisterTest(std::string_view name, void (*run)()) { tests().push_back({name, run}); }
};

// A failed check ends the program: what follows would only report the same again.
inline void check(bool holds, std::string_view text,
                  std::source_location at = std::source_location::current()) {
  if (holds) return;
  std::cerr << at.file_name() << ':' << at.line() << ": does not hold: " << text << std::endl;
  std::exit(1);
}

}  // namespace fleetrec::testing

// The name of a test is a sentence about what is tested.
#define TEST(name)                                                              \
  static void name();                                                           \
  static const fleetrec::testing::RegisterTest registered_##name(#name, &name); \
  static void name()

#define CHECK(...) fleetrec::testing::check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__)

#define CHECK_THROWS(Exception, ...)                                          \
  do {                                                                        \
    bool was_thrown = false;                                                  \
    try {                                                                     \
      __VA_ARGS__;                                                            \
    } catch (const Exception&) {                                              \
      was_thrown = true;                                                      \
    }                                                                         \
    fleetrec::testing::check(was_thrown, #__VA_ARGS__ " throws " #Exception); \
  } while (false)
