// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace fleetrec {
namespace {

// Batches are large and alike: memory that the system takes back between two of them is paid for
// in page faults, which cost more than parsing does.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace
}  // namespace fleetrec

NB_MODULE(_native, module) {
  module.doc() = "The native parts of FleetRec.";
  nanobind::set_leak_warnings(false);  // what lives until the process ends is no leak
  module.def("keep_freed_memory", &fleetrec::keep_freed_memory);
  fleetrec::bind_parse(module);
  fleetrec::bind_cells(module);
  fleetrec::bind_records(module);
  fleetrec::bind_batch(module);
  fleetrec::bind_nn(module);
  fleetrec::bind_table(module);
  fleetrec::bind_lookup(module);
  fleetrec::bind_snapshot(module);
  fleetrec::bind_log(module);
}
