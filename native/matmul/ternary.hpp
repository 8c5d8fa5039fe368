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

struct TernaryLimits : Limits {
    double temperature;  // in coefficients; 0: every flip is taken
};

class TernaryWalk : public FlipWalk<TernaryWalk, Signed> {
  public:
    using FlipWalk::FlipWalk;
    std::int64_t go(const TernaryLimits& limits);
    int weight() const;  // coefficients that are not 0

  private:
    friend class FlipWalk<TernaryWalk, Signed>;
    static int likeness(const Signed& one, const Signed& other);  // 1: the same; -1: the negative; 0: neither
    // one + sign * other; false where a coefficient would become 2 or -2.
    static bool add(const Signed& one, const Signed& other, int sign, Signed& sum);
    void rebuild();
    void refresh(int axis, std::uint16_t row);
    bool flip(const TernaryLimits& limits);  // whether the rank fell
    void keep(bool has_fallen);

    int weight_ = 0, best_weight_ = 0;
};

int weight_of(const SignedScheme& scheme);

}  // namespace matmul
