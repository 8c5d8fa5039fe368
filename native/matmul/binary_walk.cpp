#include "binary_walk.hpp"

#include <algorithm>
#include <utility>

#include "../dispatch.hpp"

namespace matmul {

namespace {

// Merges the first two rows that agree in two factors; false when there are none.
bool merge_two_rows(Scheme& scheme) {
    for (std::size_t i = 0; i < scheme.size(); ++i)
        for (std::size_t j = i + 1; j < scheme.size(); ++j)
            for (int axis = 0; axis < 3; ++axis) {
                const int y = (axis + 1) % 3, z = (axis + 2) % 3;
                if (scheme[i][y] != scheme[j][y] || scheme[i][z] != scheme[j][z]) continue;
                scheme[i][axis] ^= scheme[j][axis];
                scheme.erase(scheme.begin() + static_cast<std::ptrdiff_t>(j));
                return true;
            }
    return false;
}

}  // namespace

// Without branches, so that the compiler vectorizes it.
PALAESTRA_CLONES
std::uint64_t count_equal(const std::uint64_t* column, std::size_t rows, std::uint64_t factor) {
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < rows; ++k) count += column[k] == factor ? 1 : 0;
    return count;
}

PALAESTRA_CLONES
std::uint64_t count_equal(const Words<2>* column, std::size_t rows, const Words<2>& factor) {
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < rows; ++k) count += is_zero(column[k] ^ factor) ? 1 : 0;
    return count;
}

PALAESTRA_CLONES
std::uint64_t count_equal(const Words<4>* column, std::size_t rows, const Words<4>& factor) {
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < rows; ++k) count += is_zero(column[k] ^ factor) ? 1 : 0;
    return count;
}

Scheme reduce_scheme(Scheme scheme) {
    do {
        scheme.erase(std::remove_if(scheme.begin(), scheme.end(), has_zero), scheme.end());
    } while (merge_two_rows(scheme));
    return scheme;
}

template <class AnyMask>
void BinaryWalkOf<AnyMask>::rebuild() {
    const std::size_t rank = current.size();
    for (int axis = 0; axis < 3; ++axis) {
        columns_[axis].resize(rank);
        for (std::size_t i = 0; i < rank; ++i) columns_[axis][i] = current[i][axis];
        this->find_pairs(axis);
        degree_[axis].assign(rank, 0);
        for (const Pair& pair : pairs_[axis]) {
            ++degree_[axis][pair.first];
            ++degree_[axis][pair.second];
        }
    }
}

// Finds the pairs of one row on one axis again, after its factor changed.
template <class AnyMask>
void BinaryWalkOf<AnyMask>::refresh(int axis, std::uint16_t row) {
    std::vector<Pair>& pairs = pairs_[axis];
    std::vector<std::uint16_t>& degree = degree_[axis];
    remove_pairs_of(pairs, degree, row);
    const AnyMask factor = current[row][axis];
    std::vector<AnyMask>& column = columns_[axis];
    column[row] = factor;
    if (count_equal(column.data(), column.size(), factor) == 1) return;
    for (std::size_t other = 0; other < column.size(); ++other)
        if (column[other] == factor && other != row) {
            pairs.push_back({row, static_cast<std::uint16_t>(other)});
            ++degree[row];
            ++degree[other];
        }
}

template <class AnyMask>
bool BinaryWalkOf<AnyMask>::flip(const Limits&) {
    const std::uint64_t word = this->rng.next();
    auto [x, pair] = this->pair_at(static_cast<std::uint32_t>(((word >> 32) * this->pair_count()) >> 32));
    const int y = x == 0 ? 1 : 0, z = x == 2 ? 1 : 2;
    if (word & (1ULL << 20)) std::swap(pair.first, pair.second);
    auto& a = current[pair.first];
    auto& b = current[pair.second];
    a[y] ^= b[y];
    b[z] ^= a[z];
    if (!is_zero(a[y]) && !is_zero(b[z])) {
        refresh(y, pair.first);
        refresh(z, pair.second);
        return false;
    }
    this->remove_rows(pair, is_zero(a[y]), is_zero(b[z]));
    return true;
}

template <class AnyMask>
void BinaryWalkOf<AnyMask>::update_best(bool is_reduced) {
    if (is_reduced) best = current;
}

template <class AnyMask>
std::int64_t BinaryWalkOf<AnyMask>::run(const Limits& limits) {
    return this->run_flips(limits);
}

template class BinaryWalkOf<std::uint64_t>;
template class BinaryWalkOf<Words<2>>;
template class BinaryWalkOf<Words<4>>;

}  // namespace matmul
