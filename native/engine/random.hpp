// Random number generators: counter-based for actions, NumPy's PCG64 for environments, any NumPy generator for
// minibatches.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace engine {

// Random numbers as a function of a seed, an iteration and a counter: no state to save or to share between threads.
class CounterRng {
   public:
    CounterRng(std::uint64_t seed, std::uint64_t iteration) : key_(mix(seed + mix((iteration + 1) * STRIDE))) {}

    std::uint64_t bits(std::uint64_t counter) const { return mix(key_ + (counter + 1) * STRIDE); }

    // In [0, 1), in steps of 2^-24.
    float uniform(std::uint64_t counter) const { return static_cast<float>(bits(counter) >> 40) * 0x1p-24f; }

    // Box-Muller transform of one 64-bit word: 32 bits for the radius, 32 for the angle.
    float normal(std::uint64_t counter) const {
        const std::uint64_t word = bits(counter);
        const double radius = static_cast<double>((word >> 32) + 1) * 0x1p-32;
        const double angle = static_cast<double>(word & 0xFFFFFFFFULL) * 0x1p-32;
        return static_cast<float>(std::sqrt(-2.0 * std::log(radius)) * std::cos(6.283185307179586 * angle));
    }

    // In [0, limit), for limits of at most 2^32.
    std::int64_t below(std::uint64_t counter, std::uint64_t limit) const {
        return static_cast<std::int64_t>((bits(counter) >> 32) * limit >> 32);
    }

   private:
    static constexpr std::uint64_t STRIDE = 0x9E3779B97F4A7C15ULL;  // the golden ratio, as in SplitMix64

    static std::uint64_t mix(std::uint64_t word) {
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
        word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
        return word ^ (word >> 31);
    }

    std::uint64_t key_;
};

// NumPy's PCG64 (O'Neill's XSL-RR over 128 bits): the numbers that Gymnasium's np_random would draw.
class Pcg64 {
   public:
    __extension__ typedef unsigned __int128 Wide;

    Wide state = 0, increment = 1;

    std::uint64_t next() {
        constexpr Wide MULTIPLIER = (static_cast<Wide>(0x2360ED051FC65DA4ULL) << 64) | 0x4385DF649FCCF645ULL;
        state = state * MULTIPLIER + increment;
        const std::uint64_t folded = static_cast<std::uint64_t>(state >> 64) ^ static_cast<std::uint64_t>(state);
        const unsigned rotation = static_cast<unsigned>(state >> 122);
        return (folded >> rotation) | (folded << ((64 - rotation) & 63));
    }

    double uniform(double low, double high) {
        return low + (high - low) * (static_cast<double>(next() >> 11) * (1.0 / 9007199254740992.0));
    }
};

// NumPy's C interface of a bit generator (`bitgen_t`, in a capsule named "BitGenerator"). Its state stays in Python.
struct NumpyBitGenerator {
    void* state;
    std::uint64_t (*next_uint64)(void*);
    std::uint32_t (*next_uint32)(void*);
    double (*next_double)(void*);
    std::uint64_t (*next_raw)(void*);
};

// The same numbers as `Generator.permutation`: a Fisher-Yates shuffle that rejects draws beyond the current position. A
// rejected draw swaps a position with itself, which avoids an unpredictable branch.
inline void permute(const NumpyBitGenerator& generator, std::vector<std::int64_t>& order) {
    std::iota(order.begin(), order.end(), 0);
    for (std::uint32_t last = static_cast<std::uint32_t>(order.size()) - 1; last > 0;) {
        const std::uint32_t drawn = generator.next_uint32(generator.state) & (~0u >> __builtin_clz(last));
        const bool fits = drawn <= last;
        std::swap(order[last], order[fits ? drawn : last]);
        last -= fits;
    }
}

}  // namespace engine
