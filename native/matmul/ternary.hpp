// A walk on the flip graph over the whole numbers, with coefficients -1, 0 and 1.
//
// A factor is two bit masks, of what is added and what is taken away. Rows i and j whose x is the same, or the negative:
// (x,y,z)+(x,y',z') = (x,y+ty',z)+(x,y',z'-tz) for t = 1 or -1, wherever no coefficient becomes 2. With a temperature
// the walk prefers few coefficients: it is how a scheme of some rank is led to one with fewer additions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "walk.hpp"

namespace matmul {

struct Signed {
    Mask plus, minus;
    bool operator==(const Signed& other) const { return plus == other.plus && minus == other.minus; }
    bool is_nothing() const { return (plus | minus) == 0; }
    Signed negative() const { return {minus, plus}; }
};

using SignedRow = std::array<Signed, 3>;
using SignedScheme = std::vector<SignedRow>;

struct TernaryLimits {
    std::int64_t steps;
    std::int64_t plus_period;
    int margin;
    int target;
    double temperature;  // in coefficients; 0: every flip is taken
};

class TernaryWalk {
  public:
    TernaryWalk(SignedScheme scheme, std::uint64_t seed);
    std::int64_t go(const TernaryLimits& limits);
    int weight() const;  // coefficients that are not 0

    SignedScheme current, best;
    Dice dice;
    std::int64_t since_fall = 0;

  private:
    struct Pair {
        std::uint16_t first, second;
    };
    void rebuild();
    void refresh(int axis, std::uint16_t row);
    bool plus();
    bool flip(double temperature);  // whether the rank fell
    void drop(std::size_t row);
    void keep_if_better();

    std::array<std::vector<Pair>, 3> pairs_;
    int weight_ = 0, best_weight_ = 0;
};

int weight_of(const SignedScheme& scheme);

}  // namespace matmul
