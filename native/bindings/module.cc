// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

NB_MODULE(_native, module) {
  module.doc() = "The native parts of FleetRec.";
  fleetrec::bind_parse(module);
}
