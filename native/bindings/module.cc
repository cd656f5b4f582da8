// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

NB_MODULE(_native, module) {
  module.doc() = "The native parts of FleetRec.";
  nanobind::set_leak_warnings(false);  // what lives until the process ends is no leak
  fleetrec::bind_parse(module);
  fleetrec::bind_cells(module);
  fleetrec::bind_records(module);
  fleetrec::bind_batch(module);
  fleetrec::bind_table(module);
  fleetrec::bind_lookup(module);
  fleetrec::bind_snapshot(module);
  fleetrec::bind_log(module);
}
