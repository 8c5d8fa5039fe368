// What agents see, written into the caller's buffers. Each function does one world; pointers are at its first row.
#pragma once

#include <cstdint>
#include <vector>

#include "world.hpp"

namespace arena {

// 16 bytes that are loaded, joined and stored as one.
typedef std::uint64_t Sixteen __attribute__((vector_size(16)));

// Cells of the square around an agent by rising distance, row by row among equals; the place in that order is the rank.
// Together with the strides of one task's grid.
struct Eyes {
    static constexpr int PIECE_VALUES = 16;
    static constexpr int pieces_of(int view) { return (view + 3) / 4; }  // four cells each, in a row of the view
    static constexpr int words_of(int view) { return (view * view + 63) / 64; }  // 64 bits, one per rank

    explicit Eyes(const Plan& plan);

    struct Place {
        Sixteen locations;    // row << 4 | column where each of five tokens begins
        std::int64_t offset;  // from the corner of the view, in the grid
    };
    std::vector<Place> places;  // [rank]
    // [row][piece][which of its four cells are taken][word] the ranks of these, as far as they are within sight: so the
    // ranks of a row cost a few look-ups
    std::vector<std::uint64_t> ranks_of;
};

// The looks of every thing in a world as tokens without location; filled anew for each observation.
struct Looks {
    struct Look {
        Sixteen tokens;       // five at most, 255 behind the last
        std::int64_t length;  // bytes
    };
    std::vector<Look> looks;  // [teams][things]
};

// cells [agents][view][view] and selves [agents][SELF_COUNT]
void write_bytes(const World& world, std::uint8_t* cells, std::uint8_t* selves);
// tokens [agents][tokens][3]; counts what was dropped
void write_tokens(World& world, const Eyes& eyes, Looks& looks, std::uint8_t* tokens);
// box [agents][FEATURE_COUNT][view][view]
void write_box(const World& world, std::uint8_t* box);

inline std::uint8_t progress(const World& world) {
    return static_cast<std::uint8_t>(255LL * world.clock / world.plan->max_steps);
}

}  // namespace arena
