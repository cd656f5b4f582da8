// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"
#include "fleetrec/parallel.h"

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

// For loops that the calling thread starts. A server that computes several batches at a time must
// not let each of them wait for threads of its own: they would wait for cores.
void set_num_threads([[maybe_unused]] int count) {
#ifdef _OPENMP
  omp_set_num_threads(count);
#endif
}

}  // namespace
}  // namespace fleetrec

NB_MODULE(_native, module) {
  module.doc() = "The native parts of FleetRec.";
  nanobind::set_leak_warnings(false);  // what lives until the process ends is no leak
  module.def("keep_freed_memory", &fleetrec::keep_freed_memory);
  module.def("set_num_threads", &fleetrec::set_num_threads, nanobind::arg("count"));
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
