// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compiled once per kind of processor, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define FLEETREC_SIMD __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FLEETREC_SIMD
#endif
