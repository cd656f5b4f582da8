// SPDX-License-Identifier: Apache-2.0
// Text to 64 bits, the same on every machine and in every release: FarmHash's Fingerprint64, the
// function by which TensorFlow assigns strings to hash buckets.
#pragma once

#include <cstdint>
#include <string_view>

namespace fleetrec {

std::uint64_t fingerprint64(std::string_view text);

}  // namespace fleetrec
