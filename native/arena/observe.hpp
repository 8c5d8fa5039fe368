// What agents see, written into the caller's buffers. Each function does one world; pointers are at its first row.
#pragma once

#include <cstdint>
#include <vector>

#include "world.hpp"

namespace arena {

// 16 bytes that are loaded, joined and stored as one.
typedef std::uint64_t Sixteen __attribute__((vector_size(16)));

// Cells of the square around an agent by rising distance, row by row among equals. The place in that order is the rank.
// Only cells within sight have their bits in `of_piece`.
struct Ranks {
    Ranks(int view, int sight);

    int view, cell_count;
    int words;                               // 64-bit words for a bit per rank: 2, or 4 for large views
    int pieces;                              // of four cells each in a row of the view
    std::vector<std::uint8_t> rows, columns;  // [rank]
    // [row][piece][which of its four cells are taken][word] the ranks of these, so that a row costs a few look-ups
    std::vector<std::uint64_t> of_piece;
    std::vector<Sixteen> locations;  // [rank] row << 4 | column where each of five tokens begins
};

// Everything about seeing that follows from a task.
struct Eyes {
    explicit Eyes(const Plan& plan);

    Ranks ranks;
    std::vector<std::int32_t> offsets;  // [rank] from the corner of the view, in the grid
};

// The tokens of every thing in a world without their location, 255 behind the last; filled anew for each observation.
struct TokenScratch {
    std::vector<Sixteen> records;      // [teams][things]
    std::vector<std::uint8_t> counts;  // [things] tokens of each, at most five
};

// cells [agents][view][view] and selves [agents][SELF_COUNT]
void write_bytes(const World& world, std::uint8_t* cells, std::uint8_t* selves);
// tokens [agents][tokens][3]; counts what was dropped
void write_tokens(World& world, const Eyes& eyes, TokenScratch& scratch, std::uint8_t* tokens);
// box [agents][FEATURE_COUNT][view][view]
void write_box(const World& world, std::uint8_t* box);

inline std::uint8_t progress(const World& world) {
    return static_cast<std::uint8_t>(255LL * world.clock / world.plan->max_steps);
}

}  // namespace arena
