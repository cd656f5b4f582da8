// SPDX-License-Identifier: Apache-2.0
// Memory that runs out when a test wants it to.
#pragma once

namespace fleetrec::testing {

// From now on `operator new` succeeds so many times and then fails; below 0 it does not fail.
void allow_allocations(long num_allocations);

}  // namespace fleetrec::testing
