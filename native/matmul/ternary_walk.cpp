#include "ternary_walk.hpp"

#include <cmath>
#include <utility>

namespace matmul {

namespace {

int weight_of(const Signed& factor) { return __builtin_popcountll(factor.plus | factor.minus); }

}  // namespace

int weight_of(const SignedScheme& scheme) {
    int weight = 0;
    for (const SignedRow& row : scheme)
        for (const Signed& factor : row) weight += weight_of(factor);
    return weight;
}

int TernaryWalk::relative_sign(const Signed& one, const Signed& other) {
    if (one == other) return 1;
    return one == other.negative() ? -1 : 0;
}

bool TernaryWalk::add(const Signed& one, const Signed& other, int sign, Signed& sum) {
    const Signed second = sign < 0 ? other.negative() : other;
    if ((one.plus & second.plus) | (one.minus & second.minus)) return false;
    const Mask plus = one.plus | second.plus, minus = one.minus | second.minus, both = plus & minus;
    sum = {plus ^ both, minus ^ both};
    return true;
}

int TernaryWalk::weight() const { return weight_of(best); }

void TernaryWalk::rebuild() {
    for (int axis = 0; axis < 3; ++axis) find_pairs(axis);
    weight_ = weight_of(current);
}

void TernaryWalk::refresh(int axis, std::uint16_t row) {
    std::vector<Pair>& pairs = pairs_[axis];
    for (std::size_t k = 0; k < pairs.size();) {
        if (pairs[k].first != row && pairs[k].second != row) {
            ++k;
            continue;
        }
        pairs[k] = pairs.back();
        pairs.pop_back();
    }
    const Signed factor = current[row][axis];
    const Mask support = factor.plus | factor.minus;
    for (std::size_t other = 0; other < current.size(); ++other) {
        const Signed& each = current[other][axis];
        if ((each.plus | each.minus) == support && other != row && relative_sign(each, factor) != 0)
            pairs.push_back({row, static_cast<std::uint16_t>(other)});
    }
}

bool TernaryWalk::flip(const TernaryLimits& limits) {
    auto [x, pair] = pair_at(rng.below(pair_count()));
    const std::uint64_t bits = rng.next();
    int y = x == 0 ? 1 : 0, z = x == 2 ? 1 : 2;
    if (bits & (1ULL << 40)) std::swap(y, z);
    if (bits & (1ULL << 41)) std::swap(pair.first, pair.second);
    const int times = bits & (1ULL << 42) ? 1 : -1;
    SignedRow& a = current[pair.first];
    SignedRow& b = current[pair.second];
    // With xb = s xa, row b is (xa, s yb, zb): the sign goes to the second factor.
    const int sign = relative_sign(a[x], b[x]);
    Signed new_y, new_z;
    if (!add(a[y], b[y], times * sign, new_y) || !add(b[z], a[z], -times, new_z)) return false;
    const int heavier = weight_of(new_y) + weight_of(new_z) - weight_of(a[y]) - weight_of(b[z]);
    if (limits.temperature > 0 && heavier > 0) {
        const double uniform = static_cast<double>(rng.next() >> 11) * 0x1p-53;
        if (uniform >= std::exp(-heavier / limits.temperature)) return false;
    }
    a[y] = new_y;
    b[z] = new_z;
    if (!new_y.is_zero() && !new_z.is_zero()) {
        weight_ += heavier;
        refresh(y, pair.first);
        refresh(z, pair.second);
        return false;
    }
    remove_rows(pair, new_y.is_zero(), new_z.is_zero());
    return true;
}

void TernaryWalk::update_best(bool) {
    if (current.size() > best.size() || (current.size() == best.size() && weight_ >= best_weight_)) return;
    best = current;
    best_weight_ = weight_;
}

std::int64_t TernaryWalk::run(const TernaryLimits& limits) {
    best_weight_ = weight_of(best);
    return run_flips(limits);
}

}  // namespace matmul
