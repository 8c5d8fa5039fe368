// A walk on the flip graph over GF(2) that looks at every flip before it takes one.
//
// Each flip is described by a few numbers that mean the same in every format; their weighted sum is its score, and a
// flip is drawn with probability proportional to exp(score). Weights of zero draw all flips alike: the random walk.
// src/palaestra/apps/matmul/search/flip_guided_walk.py is the same in Python, throw for throw.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "walk.hpp"

namespace matmul {

constexpr int FEATURES = 7;
using Features = std::array<double, FEATURES>;

class GuidedWalk {
  public:
    GuidedWalk(Scheme scheme, const Features& weights, std::uint64_t seed);
    // Go on for so many flips, or to the target; returns the flips made. Fewer when there is none to take.
    std::int64_t go(std::int64_t steps, int target);
    std::vector<Features> features();  // of every flip there is, in the order in which `take` counts them
    void take(std::size_t flip);

    Scheme current;
    Dice dice;

  private:
    struct Flip {
        int axis;
        std::uint16_t first, second;
    };
    void look();  // fills flips_ and described_
    Features describe(const Flip& flip) const;
    std::uint64_t digest() const;
    void remember();

    Features weights_;
    std::vector<Flip> flips_;
    std::vector<Features> described_;
    std::vector<double> mass_;
    Flip last_{-1, 0, 0};
    std::uint64_t digest_ = 0;
    std::unordered_map<std::uint64_t, std::uint32_t> visits_;  // of schemes, whatever the order of their rows
};

}  // namespace matmul
