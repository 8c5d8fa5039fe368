// Observations, written into the caller's buffers. Each function handles one world; pointers are at its first row.
#pragma once

#include <cstdint>
#include <vector>

#include "world.hpp"

namespace arena {

// 16 bytes that are loaded, combined and stored at once.
typedef std::uint64_t Bytes16 __attribute__((vector_size(16)));

// The cells of a view by increasing distance, row by row among equals; the index in that order is the rank. Includes
// the strides of one task's grid.
struct ViewOrder {
    static constexpr int PIECE_VALUES = 16;
    static constexpr int pieces_of(int view) { return (view + 3) / 4; }  // four cells each, in a row of the view
    static constexpr int words_of(int view) { return (view * view + 63) / 64; }  // 64 bits, one per rank

    explicit ViewOrder(const Plan& plan);

    struct Place {
        Bytes16 locations;    // row << 4 | column where each of five tokens begins
        std::int64_t offset;  // from the corner of the view, in the grid
    };
    std::vector<Place> places;  // [rank]
    // [row][piece][mask of its four occupied cells][word] bit mask of their ranks, if within sight: a few lookups give
    // the ranks of a row
    std::vector<std::uint64_t> rank_masks;
};

// The tokens of every thing in a world, without location; recomputed for each observation.
struct TokenTable {
    struct ThingTokens {
        Bytes16 tokens;       // five at most, 255 behind the last
        std::int64_t length;  // bytes
    };
    std::vector<ThingTokens> tokens_of_things;  // [teams][things]
};

// cells [agents][view][view] and selves [agents][SELF_COUNT]
void write_bytes(const World& world, std::uint8_t* cells, std::uint8_t* selves);
// tokens [agents][tokens][3]; counts what was dropped
void write_tokens(World& world, const ViewOrder& order, TokenTable& tokens_of_things, std::uint8_t* tokens);
// box [agents][FEATURE_COUNT][view][view]
void write_box(const World& world, std::uint8_t* box);

inline std::uint8_t progress(const World& world) {
    return static_cast<std::uint8_t>(255LL * world.clock / world.plan->max_steps);
}

}  // namespace arena
