// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/parse_lines.h"

#include <algorithm>

namespace fleetrec {
namespace {

constexpr std::size_t kMinStretchBytes = std::size_t{1} << 16;
constexpr std::size_t kStretchesPerThread = 4;  // so that other threads take over from a slow one

}  // namespace

std::vector<TextStretch> cut_stretches(std::span<const std::string_view> segments,
                                       std::size_t num_threads) {
  std::vector<TextStretch> stretches;
  for (std::size_t segment = 0; segment < segments.size(); ++segment) {
    const std::string_view text = segments[segment];
    const std::size_t max_parts = num_threads > 1 ? num_threads * kStretchesPerThread : 1;
    const std::size_t num_parts =
        std::clamp<std::size_t>(text.size() / kMinStretchBytes, 1, max_parts);
    std::size_t begin = 0;
    for (std::size_t part = 1; part <= num_parts && begin < text.size(); ++part) {
      std::size_t end = text.size();
      if (part < num_parts) {
        const std::size_t wanted = std::max(begin, text.size() / num_parts * part);
        end = std::min(text.find('\n', wanted), text.size() - 1) + 1;
      }
      stretches.push_back({text.substr(begin, end - begin), segment});
      begin = end;
    }
  }
  return stretches;
}

std::size_t number_samples(std::span<TextStretch> stretches,
                           std::span<const std::size_t> num_lines) {
  std::size_t num_samples = 0;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool follows = i > 0 && stretches[i - 1].segment == stretches[i].segment;
    if (follows) stretches[i].number = stretches[i - 1].number + num_lines[i - 1];
    stretches[i].samples = {num_samples, num_samples + num_lines[i]};
    num_samples += num_lines[i];
  }
  return num_samples;
}

void add_undeclared(ParsedSlots& parsed,
                    std::span<const std::pair<std::string, std::int64_t>> counts) {
  for (const auto& [name, count] : counts) {
    const auto known =
        std::ranges::find(parsed.undeclared, name, &std::pair<std::string, std::int64_t>::first);
    if (known == parsed.undeclared.end()) {
      parsed.undeclared.emplace_back(name, count);
    } else {
      known->second += count;
    }
  }
}

}  // namespace fleetrec
