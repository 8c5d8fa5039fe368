// A random walk on the flip graph with coefficients -1, 0 and 1: over the integers (Ternary) or modulo 3 (Modulo3).
//
// A factor is two bit masks, of the coefficients 1 and -1. Rows i and j whose x is equal up to sign:
// (x,y,z)+(x,y',z') = (x,y+ty',z)+(x,y',z'-tz) for t = 1 or -1. Over the integers a flip is refused where a coefficient
// would become 2. A temperature makes the walk prefer few nonzero coefficients, which reduces the additions of a scheme
// at the same rank.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "flip_walk.hpp"
#include "words.hpp"

namespace matmul {

template <class Mask>
struct Signed {
    Mask plus{}, minus{};
    bool operator==(const Signed& other) const { return plus == other.plus && minus == other.minus; }
    Mask support() const { return plus | minus; }
    Signed negative() const { return {minus, plus}; }
};

struct Ternary {
    // one + other; false if a coefficient would become 2 or -2.
    template <class Mask>
    static bool add(const Signed<Mask>& one, const Signed<Mask>& other, Signed<Mask>& sum) {
        if (!is_zero((one.plus & other.plus) | (one.minus & other.minus))) return false;
        const Mask plus = one.plus | other.plus, minus = one.minus | other.minus, both = plus & minus;
        sum = {plus ^ both, minus ^ both};
        return true;
    }
};

struct Modulo3 {
    template <class Mask>
    static bool add(const Signed<Mask>& one, const Signed<Mask>& other, Signed<Mask>& sum) {
        const Mask mixed = (one.plus | other.minus) ^ (one.minus | other.plus);
        sum = {(one.minus | other.minus) ^ mixed, (one.plus | other.plus) ^ mixed};
        return true;
    }
};

struct SignedLimits : Limits {
    double temperature;  // in coefficients (Metropolis); 0: every flip is accepted
};

// Defined for one, two and four words, and both arithmetics.
template <class Mask, class Arithmetic>
class SignedWalk : public FlipWalk<SignedWalk<Mask, Arithmetic>, Signed<Mask>> {
    using Base = FlipWalk<SignedWalk<Mask, Arithmetic>, Signed<Mask>>;

  public:
    using Base::Base;
    using Base::best;
    using Base::current;
    std::int64_t run(const SignedLimits& limits);
    int weight() const;  // nonzero coefficients of the best scheme

  private:
    friend Base;
    static int relative_sign(const Signed<Mask>& one, const Signed<Mask>& other);  // 1: equal; -1: negated; 0: neither
    static bool add(const Signed<Mask>& one, const Signed<Mask>& other, int sign, Signed<Mask>& sum) {
        return Arithmetic::add(one, sign < 0 ? other.negative() : other, sum);
    }
    void rebuild();
    void refresh(int axis, std::uint16_t row);
    bool flip(const SignedLimits& limits);  // true if the rank was reduced
    void update_best(bool is_reduced);

    using Base::pairs_;
    std::array<std::vector<Mask>, 3> supports_;  // of the factors by axis, for vectorized comparison
    std::array<std::vector<std::uint16_t>, 3> degree_;  // by axis: number of pairs that contain a row
    int weight_ = 0, best_weight_ = 0;
};

}  // namespace matmul
