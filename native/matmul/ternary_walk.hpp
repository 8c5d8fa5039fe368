// A random walk on the flip graph over the integers, with coefficients -1, 0 and 1.
//
// A factor is two bit masks, of the coefficients 1 and -1. Rows i and j whose x is equal up to sign:
// (x,y,z)+(x,y',z') = (x,y+ty',z)+(x,y',z'-tz) for t = 1 or -1, where no coefficient becomes 2. A temperature makes
// the walk prefer few nonzero coefficients, which reduces the additions of a scheme at the same rank.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "binary_walk.hpp"

namespace matmul {

struct Signed {
    Mask plus, minus;
    bool operator==(const Signed& other) const { return plus == other.plus && minus == other.minus; }
    bool is_zero() const { return (plus | minus) == 0; }
    Signed negative() const { return {minus, plus}; }
};

using SignedRow = std::array<Signed, 3>;
using SignedScheme = std::vector<SignedRow>;

struct TernaryLimits : Limits {
    double temperature;  // in coefficients (Metropolis); 0: every flip is accepted
};

class TernaryWalk : public FlipWalk<TernaryWalk, Signed> {
  public:
    using FlipWalk::FlipWalk;
    std::int64_t run(const TernaryLimits& limits);
    int weight() const;  // nonzero coefficients of the best scheme

  private:
    friend class FlipWalk<TernaryWalk, Signed>;
    static int relative_sign(const Signed& one, const Signed& other);  // 1: equal; -1: negated; 0: neither
    // one + sign * other; false if a coefficient would become 2 or -2.
    static bool add(const Signed& one, const Signed& other, int sign, Signed& sum);
    void rebuild();
    void refresh(int axis, std::uint16_t row);
    bool flip(const TernaryLimits& limits);  // true if the rank was reduced
    void update_best(bool is_reduced);

    int weight_ = 0, best_weight_ = 0;
};

int weight_of(const SignedScheme& scheme);

}  // namespace matmul
