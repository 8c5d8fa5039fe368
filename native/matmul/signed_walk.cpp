#include "signed_walk.hpp"

#include <cmath>
#include <utility>

#include "binary_walk.hpp"

namespace matmul {

namespace {

template <class Mask>
int weight_of(const Signed<Mask>& factor) {
    return count_bits(factor.support());
}

template <class Mask>
int weight_of(const std::vector<std::array<Signed<Mask>, 3>>& scheme) {
    int weight = 0;
    for (const auto& row : scheme)
        for (const Signed<Mask>& factor : row) weight += weight_of(factor);
    return weight;
}

}  // namespace

template <class Mask, class Arithmetic>
int SignedWalk<Mask, Arithmetic>::relative_sign(const Signed<Mask>& one, const Signed<Mask>& other) {
    if (one == other) return 1;
    return one == other.negative() ? -1 : 0;
}

template <class Mask, class Arithmetic>
int SignedWalk<Mask, Arithmetic>::weight() const {
    return weight_of(best);
}

template <class Mask, class Arithmetic>
void SignedWalk<Mask, Arithmetic>::rebuild() {
    const std::size_t rank = current.size();
    for (int axis = 0; axis < 3; ++axis) {
        supports_[axis].resize(rank);
        for (std::size_t i = 0; i < rank; ++i) supports_[axis][i] = current[i][axis].support();
        this->find_pairs(axis);
        degree_[axis].assign(rank, 0);
        for (const Pair& pair : pairs_[axis]) {
            ++degree_[axis][pair.first];
            ++degree_[axis][pair.second];
        }
    }
    weight_ = weight_of(current);
}

// Finds the pairs of one row on one axis again, after its factor changed.
template <class Mask, class Arithmetic>
void SignedWalk<Mask, Arithmetic>::refresh(int axis, std::uint16_t row) {
    std::vector<Pair>& pairs = pairs_[axis];
    std::vector<std::uint16_t>& degree = degree_[axis];
    remove_pairs_of(pairs, degree, row);
    const Signed<Mask> factor = current[row][axis];
    const Mask support = factor.support();
    std::vector<Mask>& supports = supports_[axis];
    supports[row] = support;
    if (count_equal(supports.data(), supports.size(), support) == 1) return;
    for (std::size_t other = 0; other < supports.size(); ++other)
        if (supports[other] == support && other != row && relative_sign(current[other][axis], factor) != 0) {
            pairs.push_back({row, static_cast<std::uint16_t>(other)});
            ++degree[row];
            ++degree[other];
        }
}

template <class Mask, class Arithmetic>
bool SignedWalk<Mask, Arithmetic>::flip(const SignedLimits& limits) {
    auto [x, pair] = this->pair_at(this->rng.below(this->pair_count()));
    const std::uint64_t bits = this->rng.next();
    int y = x == 0 ? 1 : 0, z = x == 2 ? 1 : 2;
    if (bits & (1ULL << 40)) std::swap(y, z);
    if (bits & (1ULL << 41)) std::swap(pair.first, pair.second);
    const int times = bits & (1ULL << 42) ? 1 : -1;
    auto& a = current[pair.first];
    auto& b = current[pair.second];
    // With xb = s xa, row b is (xa, s yb, zb): the sign goes to the second factor.
    const int sign = relative_sign(a[x], b[x]);
    Signed<Mask> new_y, new_z;
    if (!add(a[y], b[y], times * sign, new_y) || !add(b[z], a[z], -times, new_z)) return false;
    const int heavier = weight_of(new_y) + weight_of(new_z) - weight_of(a[y]) - weight_of(b[z]);
    if (limits.temperature > 0 && heavier > 0) {
        const double uniform = static_cast<double>(this->rng.next() >> 11) * 0x1p-53;
        if (uniform >= std::exp(-heavier / limits.temperature)) return false;
    }
    a[y] = new_y;
    b[z] = new_z;
    const bool is_first_zero = is_zero(new_y.support()), is_second_zero = is_zero(new_z.support());
    if (!is_first_zero && !is_second_zero) {
        weight_ += heavier;
        refresh(y, pair.first);
        refresh(z, pair.second);
        return false;
    }
    this->remove_rows(pair, is_first_zero, is_second_zero);
    return true;
}

template <class Mask, class Arithmetic>
void SignedWalk<Mask, Arithmetic>::update_best(bool) {
    if (current.size() > best.size() || (current.size() == best.size() && weight_ >= best_weight_)) return;
    best = current;
    best_weight_ = weight_;
}

template <class Mask, class Arithmetic>
std::int64_t SignedWalk<Mask, Arithmetic>::run(const SignedLimits& limits) {
    best_weight_ = weight_of(best);
    return this->run_flips(limits);
}

template class SignedWalk<std::uint64_t, Ternary>;
template class SignedWalk<Words<2>, Ternary>;
template class SignedWalk<Words<4>, Ternary>;
template class SignedWalk<std::uint64_t, Modulo3>;
template class SignedWalk<Words<2>, Modulo3>;
template class SignedWalk<Words<4>, Modulo3>;

}  // namespace matmul
