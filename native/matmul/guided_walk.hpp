// A walk on the flip graph over GF(2) that draws flips by a linear softmax policy.
//
// Each flip has a few features that mean the same in every format; the weighted sum is its score, and a flip is drawn
// with probability proportional to exp(score). Weights of zero give the uniform random walk. PythonGuidedWalk in
// src/palaestra/apps/matmul/search/flip_guided_walk.py takes the same steps.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "binary_walk.hpp"

namespace matmul {

constexpr int FEATURES = 7;
using Features = std::array<double, FEATURES>;

class GuidedWalk {
  public:
    GuidedWalk(Scheme scheme, const Features& weights, std::uint64_t seed);
    // Runs until `steps` flips or the target rank, or until no flip is left; returns the number of flips.
    std::int64_t run(std::int64_t steps, int target);
    std::vector<Features> features();  // of every possible flip, in the order of `take`
    void take(std::size_t flip);

    Scheme current;
    Rng rng;

  private:
    struct Flip {
        int axis;
        std::uint16_t first, second;
    };
    void describe_flips();  // fills flips_ and features_
    Features describe(const Flip& flip) const;
    std::uint64_t digest() const;
    void count_visit();

    Features weights_;
    std::vector<Flip> flips_;
    std::vector<Features> features_;
    std::vector<double> mass_;
    Flip last_{-1, 0, 0};
    std::uint64_t digest_ = 0;
    std::unordered_map<std::uint64_t, std::uint32_t> visits_;  // by digest of a scheme, independent of the order of rows
};

}  // namespace matmul
