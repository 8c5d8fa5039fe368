// A random walk on the flip graph over GF(2).
//
// A factor is a bit mask of at most 256 entries. Rows i and j with equal x: (x,y,z)+(x,y',z') = (x,y+y',z)+(x,y',z+z').
// That is a flip. A row with a factor of 0 is removed, which reduces the rank. After a while without a reduction a plus
// transition splits rows, which opens other paths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flip_walk.hpp"
#include "words.hpp"

namespace matmul {

using Mask = std::uint64_t;
using Row = std::array<Mask, 3>;
using Scheme = std::vector<Row>;

inline bool has_zero(const Row& row) { return row[0] == 0 || row[1] == 0 || row[2] == 0; }

// How often `factor` occurs in a column.
std::uint64_t count_equal(const std::uint64_t* column, std::size_t rows, std::uint64_t factor);
std::uint64_t count_equal(const Words<2>* column, std::size_t rows, const Words<2>& factor);
std::uint64_t count_equal(const Words<4>* column, std::size_t rows, const Words<4>& factor);

// Defined for one, two and four words.
template <class AnyMask>
class BinaryWalkOf : public FlipWalk<BinaryWalkOf<AnyMask>, AnyMask> {
    using Base = FlipWalk<BinaryWalkOf<AnyMask>, AnyMask>;

  public:
    using Base::best;
    using Base::Base;
    using Base::current;
    // Runs until limits.steps flips or limits.target; returns the number of flips.
    std::int64_t run(const Limits& limits);

  private:
    friend class FlipWalk<BinaryWalkOf<AnyMask>, AnyMask>;
    static int relative_sign(const AnyMask& one, const AnyMask& other) { return one == other ? 1 : 0; }
    static bool add(const AnyMask& one, const AnyMask& other, int, AnyMask& sum) {
        sum = one ^ other;
        return true;
    }
    void rebuild();
    void refresh(int axis, std::uint16_t row);
    bool flip(const Limits& limits);  // true if the rank was reduced
    void update_best(bool is_reduced);

    using Base::pairs_;
    std::array<std::vector<AnyMask>, 3> columns_;  // copy of the factors by axis, for vectorized comparison
    std::array<std::vector<std::uint16_t>, 3> degree_;  // by axis: number of pairs that contain a row
};

using BinaryWalk = BinaryWalkOf<std::uint64_t>;

// Removes zero rows, merges rows that share two factors, cancels equal rows; until nothing changes.
Scheme reduce_scheme(Scheme scheme);

}  // namespace matmul
