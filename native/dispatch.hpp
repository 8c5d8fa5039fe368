// One binary for every machine of its family: functions marked so are compiled several times, and the loader takes the
// best that the processor knows. Without fused or re-ordered arithmetic (see CMakeLists.txt) all give the same.
#pragma once

#if defined(PALAESTRA_HAS_CLONES)
#define PALAESTRA_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PALAESTRA_CLONES
#endif

// What a clone calls must become part of it: alone it would be compiled for the oldest machine.
#if defined(__GNUC__)
#define PALAESTRA_INLINE inline __attribute__((always_inline))
#else
#define PALAESTRA_INLINE inline
#endif
