#include "cyclic_walk.hpp"

#include <algorithm>
#include <utility>

namespace matmul {

namespace {

constexpr int ATTEMPTS = 1000;

int weight(const Row& row) {
    if (has_zero(row)) return 0;
    return row[0] == row[1] && row[1] == row[2] ? 1 : 3;
}

// The row rotated so that factor `position` is first.
Row rotated(const Row& row, std::size_t position) {
    return {row[position], row[(position + 1) % 3], row[(position + 2) % 3]};
}

}  // namespace

int cyclic_rank(const Scheme& scheme) {
    int rank = 0;
    for (const Row& row : scheme) rank += weight(row);
    return rank;
}

void CyclicWalk::rebuild() {
    rank_ = cyclic_rank(current);
    factors_.resize(3 * current.size());
    for (std::size_t k = 0; k < factors_.size(); ++k) factors_[k] = current[k / 3][k % 3];
    degree_.assign(factors_.size(), 0);
    pairs_.clear();
    for (std::size_t k = 0; k < factors_.size(); ++k)
        for (std::size_t other = 3 * (k / 3) + 3; other < factors_.size(); ++other)
            if (factors_[k] == factors_[other]) {
                pairs_.push_back({static_cast<std::uint16_t>(k), static_cast<std::uint16_t>(other)});
                ++degree_[k];
                ++degree_[other];
            }
}

// Finds the pairs of one factor again, after it changed.
void CyclicWalk::refresh(std::size_t factor) {
    remove_pairs_of(pairs_, degree_, factor);
    const Mask mask = current[factor / 3][factor % 3];
    factors_[factor] = mask;
    if (count_equal(factors_.data(), factors_.size(), mask) == 1) return;
    for (std::size_t other = 0; other < factors_.size(); ++other)
        if (factors_[other] == mask && other / 3 != factor / 3) {
            pairs_.push_back({static_cast<std::uint16_t>(factor), static_cast<std::uint16_t>(other)});
            ++degree_[factor];
            ++degree_[other];
        }
}

void CyclicWalk::remove_zero_rows() {
    current.erase(std::remove_if(current.begin(), current.end(), has_zero), current.end());
    rebuild();
}

// (x,y,z) + (x,y',z') = (x,y+y',z) + (x,y',z'+z), each with its orbit.
bool CyclicWalk::flip(std::uint64_t word, bool may_increase) {
    Pair pair = pairs_[((word >> 32) * pairs_.size()) >> 32];
    if (word & (1ULL << 20)) std::swap(pair.first, pair.second);
    const std::size_t i = pair.first / 3, j = pair.second / 3;
    const std::size_t y = (pair.first + 1) % 3, z = (pair.second + 2) % 3;  // 3 * row + position
    Row a = current[i], b = current[j];
    a[y] ^= b[(pair.second + 1) % 3];
    b[z] ^= a[(pair.first + 2) % 3];
    const int change = weight(a) + weight(b) - weight(current[i]) - weight(current[j]);
    if (change > 0 && !may_increase) return false;
    current[i] = a;
    current[j] = b;
    rank_ += change;
    if (has_zero(a) || has_zero(b)) {
        remove_zero_rows();
    } else {
        refresh(3 * i + y);
        refresh(3 * j + z);
    }
    return true;
}

// a + b = (ax, ay+by, az) + (ax, by, bz+az) + (bx+ax, by, bz), for any rotation of the two.
bool CyclicWalk::split_pair() {
    const std::uint32_t count = static_cast<std::uint32_t>(current.size());
    for (int attempt = 0; attempt < ATTEMPTS && count > 1; ++attempt) {
        const std::uint32_t i = rng.below(count), j = rng.below(count);
        if (i == j) continue;
        const Row a = rotated(current[i], rng.below(3)), b = rotated(current[j], rng.below(3));
        if (a[0] == b[0] || a[1] == b[1] || a[2] == b[2]) continue;
        current[i] = {a[0], a[1] ^ b[1], a[2]};
        current[j] = {a[0], b[1], a[2] ^ b[2]};
        current.push_back({a[0] ^ b[0], b[1], b[2]});
        rebuild();
        return true;
    }
    return false;
}

// (a,a,b) = (a,a,a) + (a,a,a+b), which adds one row.
bool CyclicWalk::split_off_cube() {
    const std::uint32_t count = static_cast<std::uint32_t>(current.size());
    for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
        const std::uint32_t i = rng.below(count);
        const Row row = rotated(current[i], rng.below(3));
        if (row[0] != row[1] || row[1] == row[2]) continue;
        current[i] = {row[0], row[1], row[1] ^ row[2]};
        current.push_back({row[0], row[0], row[0]});
        rebuild();
        return true;
    }
    return false;
}

// A flip that increases the rank: a cube becomes an orbit of three rows.
bool CyclicWalk::break_cube() {
    for (int attempt = 0; attempt < ATTEMPTS && !pairs_.empty(); ++attempt) {
        const int before = rank_;
        const std::uint64_t word = rng.next();
        const Pair pair = pairs_[((word >> 32) * pairs_.size()) >> 32];
        if (weight(current[pair.first / 3]) != 1 && weight(current[pair.second / 3]) != 1) continue;
        if (flip(word, true) && rank_ != before) return true;
    }
    return false;
}

bool CyclicWalk::plus() {
    const std::uint32_t way = rng.below(4);
    if (way == 0 && split_off_cube()) return true;
    if (way == 1 && break_cube()) return true;
    return split_pair();
}

std::int64_t CyclicWalk::run(const Limits& limits) {
    rebuild();
    best_rank_ = cyclic_rank(best);
    std::int64_t made = 0;
    while (made < limits.steps && best_rank_ > limits.target) {
        ++made;
        ++since_reduction;
        const bool is_stuck = pairs_.empty();
        if (is_stuck || since_reduction >= limits.plus_period) {
            since_reduction = 0;
            const bool may_increase = rank_ < best_rank_ + limits.margin;
            if (may_increase ? !plus() && is_stuck : is_stuck) return made;  // neither a flip nor a plus is possible
            continue;
        }
        if (flip(rng.next(), false) && rank_ < best_rank_) {
            best = current;
            best_rank_ = rank_;
            since_reduction = 0;
        }
    }
    return made;
}

}  // namespace matmul
