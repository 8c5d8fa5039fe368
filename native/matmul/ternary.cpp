#include "ternary.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace matmul {

namespace {

int weight_of(const Signed& factor) { return __builtin_popcountll(factor.plus | factor.minus); }

// 1: the same; -1: the negative; 0: neither.
int likeness(const Signed& one, const Signed& other) {
    if (one == other) return 1;
    return one == other.negative() ? -1 : 0;
}

// one + sign * other; false where a coefficient would become 2 or -2.
bool add(const Signed& one, const Signed& other, int sign, Signed& sum) {
    const Signed second = sign < 0 ? other.negative() : other;
    if ((one.plus & second.plus) | (one.minus & second.minus)) return false;
    const Mask plus = one.plus | second.plus, minus = one.minus | second.minus, both = plus & minus;
    sum = {plus ^ both, minus ^ both};
    return true;
}

}  // namespace

int weight_of(const SignedScheme& scheme) {
    int weight = 0;
    for (const SignedRow& row : scheme)
        for (const Signed& factor : row) weight += weight_of(factor);
    return weight;
}

TernaryWalk::TernaryWalk(SignedScheme scheme, std::uint64_t seed)
    : current(std::move(scheme)), best(current), dice{seed == 0 ? 0x9E3779B97F4A7C15ULL : seed} {}

int TernaryWalk::weight() const { return weight_of(best); }

void TernaryWalk::rebuild() {
    for (int axis = 0; axis < 3; ++axis) {
        pairs_[axis].clear();
        for (std::size_t i = 0; i < current.size(); ++i)
            for (std::size_t j = i + 1; j < current.size(); ++j)
                if (likeness(current[i][axis], current[j][axis]) != 0)
                    pairs_[axis].push_back({static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(j)});
    }
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
        if ((each.plus | each.minus) == support && other != row && likeness(each, factor) != 0)
            pairs.push_back({row, static_cast<std::uint16_t>(other)});
    }
}

void TernaryWalk::drop(std::size_t row) {
    current[row] = current.back();
    current.pop_back();
}

bool TernaryWalk::plus() {
    const std::uint32_t rank = static_cast<std::uint32_t>(current.size());
    for (int attempt = 0; attempt < 1000 && rank > 1; ++attempt) {
        const std::uint32_t i = dice.below(rank), j = dice.below(rank);
        if (i == j) continue;
        const int x = static_cast<int>(dice.below(3));
        const int y = (x + 1 + static_cast<int>(dice.below(2))) % 3, z = 3 - x - y;
        const SignedRow a = current[i], b = current[j];
        if (likeness(a[x], b[x]) || likeness(a[y], b[y]) || likeness(a[z], b[z])) continue;
        // a + b = (ax, ay+by, az) + (ax, by, bz-az) + (bx-ax, by, bz)
        Signed sum_y, difference_z, difference_x;
        if (!add(a[y], b[y], 1, sum_y) || !add(b[z], a[z], -1, difference_z) || !add(b[x], a[x], -1, difference_x)) continue;
        SignedRow added{};
        current[i][y] = sum_y;
        current[j][x] = a[x];
        current[j][z] = difference_z;
        added[x] = difference_x;
        added[y] = b[y];
        added[z] = b[z];
        current.push_back(added);
        rebuild();
        return true;
    }
    return false;
}

bool TernaryWalk::flip(double temperature) {
    const std::uint32_t first = static_cast<std::uint32_t>(pairs_[0].size());
    const std::uint32_t second = first + static_cast<std::uint32_t>(pairs_[1].size());
    std::uint32_t chosen = dice.below(second + static_cast<std::uint32_t>(pairs_[2].size()));
    const std::uint64_t coins = dice.next();
    const int x = chosen < first ? 0 : chosen < second ? 1 : 2;
    chosen -= x == 0 ? 0 : x == 1 ? first : second;
    int y = x == 0 ? 1 : 0, z = x == 2 ? 1 : 2;
    if (coins & (1ULL << 40)) std::swap(y, z);
    Pair pair = pairs_[x][chosen];
    if (coins & (1ULL << 41)) std::swap(pair.first, pair.second);
    const int times = coins & (1ULL << 42) ? 1 : -1;
    SignedRow& a = current[pair.first];
    SignedRow& b = current[pair.second];
    // With xb = s xa, row b is (xa, s yb, zb): the sign goes to the second factor.
    const int sign = likeness(a[x], b[x]);
    Signed new_y, new_z;
    if (!add(a[y], b[y], times * sign, new_y) || !add(b[z], a[z], -times, new_z)) return false;
    const int heavier = weight_of(new_y) + weight_of(new_z) - weight_of(a[y]) - weight_of(b[z]);
    if (temperature > 0 && heavier > 0) {
        const double lot = static_cast<double>(dice.next() >> 11) * 0x1p-53;
        if (lot >= std::exp(-heavier / temperature)) return false;
    }
    a[y] = new_y;
    b[z] = new_z;
    if (!new_y.is_nothing() && !new_z.is_nothing()) {
        weight_ += heavier;
        refresh(y, pair.first);
        refresh(z, pair.second);
        return false;
    }
    const std::size_t high = std::max(pair.first, pair.second), low = std::min(pair.first, pair.second);
    if (new_y.is_nothing() && new_z.is_nothing()) {
        drop(high);
        drop(low);
    } else {
        drop(new_y.is_nothing() ? pair.first : pair.second);
    }
    rebuild();
    return true;
}

void TernaryWalk::keep_if_better() {
    if (current.size() > best.size() || (current.size() == best.size() && weight_ >= best_weight_)) return;
    best = current;
    best_weight_ = weight_;
}

std::int64_t TernaryWalk::go(const TernaryLimits& limits) {
    rebuild();
    best_weight_ = weight_of(best);
    std::int64_t made = 0;
    while (made < limits.steps && static_cast<int>(best.size()) > limits.target) {
        ++made;
        ++since_fall;
        const bool is_stuck = pairs_[0].empty() && pairs_[1].empty() && pairs_[2].empty();
        if (is_stuck || since_fall >= limits.plus_period) {
            since_fall = 0;
            const bool may_rise = current.size() < best.size() + static_cast<std::size_t>(limits.margin);
            if (may_rise ? !plus() && is_stuck : is_stuck) return made;  // nothing can be done from here
            continue;
        }
        if (flip(limits.temperature) && current.size() < best.size()) since_fall = 0;
        keep_if_better();
    }
    return made;
}

}  // namespace matmul
