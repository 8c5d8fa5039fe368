// A generator of NumPy's, drawn from without Python: its state stays where it is saved and restored.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace engine {

// As NumPy lays it out for others (bitgen_t, in a capsule called "BitGenerator").
struct NumpyBits {
    void* state;
    std::uint64_t (*next_uint64)(void*);
    std::uint32_t (*next_uint32)(void*);
    double (*next_double)(void*);
    std::uint64_t (*next_raw)(void*);
};

// Generator.permutation of as many, number for number: each place draws from those up to itself, again until it fits.
// What does not fit changes a place with itself, for nobody can foresee which it will be.
inline void permute(const NumpyBits& bits, std::vector<std::int64_t>& order) {
    std::iota(order.begin(), order.end(), 0);
    for (std::uint32_t last = static_cast<std::uint32_t>(order.size()) - 1; last > 0;) {
        const std::uint32_t drawn = bits.next_uint32(bits.state) & (~0u >> __builtin_clz(last));
        const bool fits = drawn <= last;
        std::swap(order[last], order[fits ? drawn : last]);
        last -= fits;
    }
}

}  // namespace engine
