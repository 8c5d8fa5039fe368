// A random walk on the flip graph over GF(2).
//
// A factor is a bit mask of at most 64 entries. Rows i and j with equal x: (x,y,z)+(x,y',z') = (x,y+y',z)+(x,y',z+z').
// That is a flip. A row with a factor of 0 is removed, which reduces the rank. After a while without a reduction a plus
// transition splits rows, which opens other paths.
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

inline bool is_zero(const Row& row) { return row[0] == 0 || row[1] == 0 || row[2] == 0; }

// How often `factor` occurs in a column.
std::uint64_t count_equal(const Mask* column, std::size_t rows, Mask factor);

class BinaryWalk : public FlipWalk<BinaryWalk, Mask> {
  public:
    using FlipWalk::FlipWalk;
    // Runs until limits.steps flips or limits.target; returns the number of flips.
    std::int64_t run(const Limits& limits);

  private:
    friend class FlipWalk<BinaryWalk, Mask>;
    static int relative_sign(Mask one, Mask other) { return one == other ? 1 : 0; }
    static bool add(Mask one, Mask other, int, Mask& sum) {
        sum = one ^ other;
        return true;
    }
    void rebuild();
    void refresh(int axis, std::uint16_t row);
    bool flip(const Limits& limits);  // true if the rank was reduced
    void update_best(bool is_reduced);

    std::array<std::vector<Mask>, 3> columns_;  // copy of the factors by axis, for vectorized comparison
    std::array<std::vector<std::uint16_t>, 3> degree_;  // by axis: number of pairs that contain a row
};

// Removes zero rows, merges rows that share two factors, cancels equal rows; until nothing changes.
Scheme reduce_scheme(Scheme scheme);

}  // namespace matmul
