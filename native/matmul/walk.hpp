// A walk on the flip graph over GF(2): schemes of one format, joined where two rows share a factor.
//
// A factor is a bit mask of at most 64 entries. Rows i and j with equal x: (x,y,z)+(x,y',z') = (x,y+y',z)+(x,y',z+z').
// That is a flip; a factor that becomes 0 takes its row away, and the rank falls. When nothing falls for a while, one
// row is split into two ("plus"), which opens other ways down.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flip_walk.hpp"

namespace matmul {

using Mask = std::uint64_t;
using Row = std::array<Mask, 3>;
using Scheme = std::vector<Row>;

inline bool is_nothing(const Row& row) { return row[0] == 0 || row[1] == 0 || row[2] == 0; }

// How often this factor stands in a column.
std::uint64_t count_equal(const Mask* column, std::size_t rows, Mask factor);

class Walk : public FlipWalk<Walk, Mask> {
  public:
    using FlipWalk::FlipWalk;
    // Go on for so many flips, or to the target; returns the flips made.
    std::int64_t go(const Limits& limits);

  private:
    friend class FlipWalk<Walk, Mask>;
    static int likeness(Mask one, Mask other) { return one == other ? 1 : 0; }
    static bool add(Mask one, Mask other, int, Mask& sum) {
        sum = one ^ other;
        return true;
    }
    void rebuild();
    void refresh(int axis, std::uint16_t row);
    bool flip(const Limits& limits);  // whether the rank fell
    void keep(bool has_fallen);

    std::array<std::vector<Mask>, 3> columns_;  // the factors once more, axis by axis: rows are compared in a sweep
    std::array<std::vector<std::uint16_t>, 3> degree_;  // in how many pairs of this axis a row is
};

// Rows that are nothing go, rows that share two factors become one, equal rows cancel; until nothing changes.
Scheme reduced(Scheme scheme);

}  // namespace matmul
