// A walk on the flip graph over GF(2): schemes of one format, joined where two rows share a factor.
//
// A factor is a bit mask of at most 64 entries. Rows i and j with equal x: (x,y,z)+(x,y',z') = (x,y+y',z)+(x,y',z+z').
// That is a flip; a factor that becomes 0 takes its row away, and the rank falls. When nothing falls for a while, one
// row is split into two ("plus"), which opens other ways down.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace matmul {

using Mask = std::uint64_t;
using Row = std::array<Mask, 3>;
using Scheme = std::vector<Row>;

// xorshift64*: one word of state, so that a checkpoint holds the whole of it.
struct Dice {
    std::uint64_t state;
    std::uint64_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545F4914F6CDD1DULL;
    }
    std::uint32_t below(std::uint32_t count) {
        return static_cast<std::uint32_t>(((next() >> 32) * count) >> 32);
    }
};

struct Limits {
    std::int64_t steps;        // flips of this call
    std::int64_t plus_period;  // flips without a fall before a plus
    int margin;                // how far above the best a plus may lead
    int target;                // stop at this rank
};

class Walk {
  public:
    Walk(Scheme scheme, std::uint64_t seed);
    // Go on for so many flips, or to the target; returns the flips made.
    std::int64_t go(const Limits& limits);

    Scheme current, best;
    Dice dice;
    std::int64_t since_fall = 0;

  private:
    struct Pair {
        std::uint16_t first, second;
    };
    void rebuild();
    void refresh(int axis, std::uint16_t row);
    bool plus();
    void drop(std::size_t row);
    bool flip();  // whether the rank fell

    std::array<std::vector<Mask>, 3> columns_;  // the factors once more, axis by axis: rows are compared in a sweep
    std::array<std::vector<Pair>, 3> pairs_;  // rows that share this factor
    std::array<std::vector<std::uint16_t>, 3> degree_;  // in how many of those pairs a row is
};

// Rows that are nothing go, rows that share two factors become one, equal rows cancel; until nothing changes.
Scheme reduced(Scheme scheme);

}  // namespace matmul
