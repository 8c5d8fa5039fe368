// Bit masks of one word (std::uint64_t) or of several (Words), with the same operations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace matmul {

template <std::size_t N>
struct Words {
    std::array<std::uint64_t, N> word{};

    bool operator==(const Words& other) const { return word == other.word; }
    bool operator!=(const Words& other) const { return word != other.word; }
    Words& operator^=(const Words& other) {
        for (std::size_t k = 0; k < N; ++k) word[k] ^= other.word[k];
        return *this;
    }
    Words& operator|=(const Words& other) {
        for (std::size_t k = 0; k < N; ++k) word[k] |= other.word[k];
        return *this;
    }
    Words& operator&=(const Words& other) {
        for (std::size_t k = 0; k < N; ++k) word[k] &= other.word[k];
        return *this;
    }
    friend Words operator^(Words one, const Words& other) { return one ^= other; }
    friend Words operator|(Words one, const Words& other) { return one |= other; }
    friend Words operator&(Words one, const Words& other) { return one &= other; }
};

inline bool is_zero(std::uint64_t mask) { return mask == 0; }
inline int count_bits(std::uint64_t mask) { return __builtin_popcountll(mask); }

template <std::size_t N>
bool is_zero(const Words<N>& mask) {
    std::uint64_t any = 0;
    for (std::uint64_t word : mask.word) any |= word;
    return any == 0;
}

template <std::size_t N>
int count_bits(const Words<N>& mask) {
    int count = 0;
    for (std::uint64_t word : mask.word) count += __builtin_popcountll(word);
    return count;
}

// Number of words of a mask.
template <class Mask>
constexpr std::size_t WORDS = sizeof(Mask) / sizeof(std::uint64_t);

// The mask whose words start at `words`.
template <class Mask>
Mask load_mask(const std::uint64_t* words) {
    if constexpr (WORDS<Mask> == 1) {
        return *words;
    } else {
        Mask mask;
        for (std::size_t k = 0; k < WORDS<Mask>; ++k) mask.word[k] = words[k];
        return mask;
    }
}

template <class Mask>
void store_mask(const Mask& mask, std::uint64_t* words) {
    if constexpr (WORDS<Mask> == 1) {
        *words = mask;
    } else {
        for (std::size_t k = 0; k < WORDS<Mask>; ++k) words[k] = mask.word[k];
    }
}

}  // namespace matmul
