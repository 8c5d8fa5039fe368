// SplitMix64, as in apps/arena/random.py: both worlds draw the same numbers.
#pragma once

#include <cstdint>

namespace arena {

struct Dice {
    std::uint64_t state = 0;

    std::uint64_t next() {
        state += 0x9E3779B97F4A7C15ULL;
        std::uint64_t mixed = state;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
        return mixed ^ (mixed >> 31);
    }

    // 0 to count - 1
    int below(int count) {
        return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(count)) >> 32);
    }
};

}  // namespace arena
