// SPDX-License-Identifier: Apache-2.0
// Steps that update every row of a table, as an optimizer of a dense matrix does. Rows exist from
// their first impression on; before it, a step without a gradient would not change them: that holds
// for optimizers without weight decay, whose state begins with zeros.
#pragma once

#include <cstdint>
#include <span>

#include "fleetrec/table/table.h"

namespace fleetrec {

// Updates all rows but those of `ids` with a gradient of zero. Every row, those of `ids` included,
// is made to count the steps of the table so far, so that the first gradient of a row is corrected
// for the step of the table, not of the row. Call it once per step, before the gradients are
// applied, also if there are none.
void update_other_rows(Table& table, std::span<const std::int64_t> ids, float lr);

}  // namespace fleetrec
