// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/vector_math.h"

#include "fleetrec/simd.h"

namespace fleetrec {

FLEETREC_SIMD void add(float* sum, const float* term, std::size_t dim) {
  for (std::size_t i = 0; i < dim; ++i) sum[i] += term[i];
}

FLEETREC_SIMD void add_scaled(float* sum, const float* term, std::size_t dim, float scale) {
  for (std::size_t i = 0; i < dim; ++i) sum[i] += scale * term[i];
}

}  // namespace fleetrec
