// NumPy's PCG64 (O'Neill's XSL-RR over 128 bits): worlds in here draw what Gymnasium's np_random would have drawn.
#pragma once

#include <cstdint>

namespace engine {

class Pcg64 {
   public:
    __extension__ typedef unsigned __int128 Wide;

    Wide state = 0, increment = 1;

    std::uint64_t next() {
        constexpr Wide MULTIPLIER = (static_cast<Wide>(0x2360ED051FC65DA4ULL) << 64) | 0x4385DF649FCCF645ULL;
        state = state * MULTIPLIER + increment;
        const std::uint64_t folded = static_cast<std::uint64_t>(state >> 64) ^ static_cast<std::uint64_t>(state);
        const unsigned turn = static_cast<unsigned>(state >> 122);
        return (folded >> turn) | (folded << ((64 - turn) & 63));
    }

    double uniform(double low, double high) {
        return low + (high - low) * (static_cast<double>(next() >> 11) * (1.0 / 9007199254740992.0));
    }
};

}  // namespace engine
