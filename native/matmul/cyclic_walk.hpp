// A random walk among cyclic-symmetric schemes over GF(2): with (a,b,c) they contain (b,c,a) and (c,a,b).
//
// In trace form the product of square matrices has this symmetry, so one row represents its orbit of three; a cube
// (a,a,a) represents itself. The sum over an orbit is linear in each factor, so flips and plus transitions hold as for
// single rows, at any position of the common factor. The walk handles a third of the rows: 5x5x5 is as small as 3x4x4.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "binary_walk.hpp"

namespace matmul {

class CyclicWalk {
  public:
    CyclicWalk(Scheme start, std::uint64_t seed)
        : current(std::move(start)), best(current), rng{seed == 0 ? DEFAULT_SEED : seed} {}
    // Runs until limits.steps flips or limits.target; returns the number of flips. Ranks are those of the full scheme.
    std::int64_t run(const Limits& limits);

    Scheme current, best;  // one row of each orbit, in trace form
    Rng rng;
    std::int64_t since_reduction = 0;

  private:
    // A factor's index is 3 * row + position.
    void rebuild();
    void refresh(std::size_t factor);
    void remove_zero_rows();
    bool flip(std::uint64_t word, bool may_increase);  // false if the flip was refused
    // Plus transitions; false where none is possible.
    bool plus();
    bool split_pair();
    bool split_off_cube();
    bool break_cube();

    int rank_ = 0, best_rank_ = 0;
    std::vector<Mask> factors_;
    std::vector<Pair> pairs_;            // equal factors of different rows
    std::vector<std::uint16_t> degree_;  // number of pairs that contain a factor
};

int cyclic_rank(const Scheme& scheme);  // of the full scheme

}  // namespace matmul
