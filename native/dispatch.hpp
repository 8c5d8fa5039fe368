// Function multiversioning: a marked function is compiled once per CPU level, and the loader selects the best one that the
// CPU supports. Without fused or reordered arithmetic (see CMakeLists.txt) all versions give equal results.
#pragma once

#if defined(PALAESTRA_HAS_CLONES)
#define PALAESTRA_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PALAESTRA_CLONES
#endif

// Functions that a clone calls must be inlined into it: on their own they are compiled for the oldest CPU.
#if defined(__GNUC__)
#define PALAESTRA_INLINE inline __attribute__((always_inline))
#else
#define PALAESTRA_INLINE inline
#endif
