// A walk among schemes over GF(2) that stay the same when they are turned: (a,b,c), (b,c,a) and (c,a,b) are all in it.
//
// For square matrices the trace of a product of three is such a sum, so one row may stand for the three: it counts 3, and
// 1 where all its factors are equal, since three times the same is once modulo 2. A sum over the turns is linear in each
// factor, so flips and pluses hold as they do for single rows, wherever the common factor stands. What is walked through
// has a third of the rows: 5x5x5 is as small as 3x4x4.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "walk.hpp"

namespace matmul {

class TurningWalk {
  public:
    TurningWalk(Scheme start, std::uint64_t seed)
        : current(std::move(start)), best(current), dice{seed == 0 ? SOME_SEED : seed} {}
    // Go on for so many flips, or to the target; returns the flips made. Ranks are those of the whole scheme.
    std::int64_t go(const Limits& limits);

    Scheme current, best;  // one row of each turn, in the form of the trace
    Dice dice;
    std::int64_t since_fall = 0;

  private:
    // Factors are counted through: 3 * row + place.
    void rebuild();
    void refresh(std::size_t factor);
    void drop_nothings();
    bool flip(std::uint64_t word, bool may_rise);  // whether anything was done
    // Ways up; false where there is none.
    bool rise();
    bool split_two();
    bool split_off_cube();
    bool break_cube();

    int rank_ = 0, best_rank_ = 0;
    std::vector<Mask> factors_;
    std::vector<Pair> pairs_;            // factors of different rows that are equal
    std::vector<std::uint16_t> degree_;  // in how many pairs a factor is
};

int turned_rank(const Scheme& scheme);  // of all turns of all rows together

}  // namespace matmul
