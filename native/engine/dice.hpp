// Random numbers as a function of where they are used: there is no state to keep, to share among threads or to save.
#pragma once

#include <cmath>
#include <cstdint>

namespace engine {

class Dice {
   public:
    Dice(std::uint64_t seed, std::uint64_t iteration) : key_(mixed(seed + mixed((iteration + 1) * STRIDE))) {}

    std::uint64_t bits(std::uint64_t place) const { return mixed(key_ + (place + 1) * STRIDE); }

    // 0 <= u < 1, in steps of 2^-24
    float uniform(std::uint64_t place) const { return static_cast<float>(bits(place) >> 40) * 0x1p-24f; }

    // Box and Muller's, from one word: 32 bits for the length, 32 for the angle.
    float normal(std::uint64_t place) const {
        const std::uint64_t word = bits(place);
        const double length = static_cast<double>((word >> 32) + 1) * 0x1p-32;
        const double angle = static_cast<double>(word & 0xFFFFFFFFULL) * 0x1p-32;
        return static_cast<float>(std::sqrt(-2.0 * std::log(length)) * std::cos(6.283185307179586 * angle));
    }

   private:
    static constexpr std::uint64_t STRIDE = 0x9E3779B97F4A7C15ULL;  // the golden ratio, as SplitMix64 steps

    static std::uint64_t mixed(std::uint64_t word) {
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
        word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
        return word ^ (word >> 31);
    }

    std::uint64_t key_;
};

}  // namespace engine
