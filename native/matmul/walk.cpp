#include "walk.hpp"

#include <algorithm>
#include <utility>

#include "../dispatch.hpp"

namespace matmul {

namespace {

// No branch inside, so that the compiler compares several at once.
PALAESTRA_CLONES
std::uint64_t count_equal(const Mask* column, std::size_t rank, Mask factor) {
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < rank; ++k) count += column[k] == factor ? 1 : 0;
    return count;
}

bool is_nothing(const Row& row) { return row[0] == 0 || row[1] == 0 || row[2] == 0; }

// Joins the first two rows that agree in two factors; false when there are none.
bool join_two(Scheme& scheme) {
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

Scheme reduced(Scheme scheme) {
    do {
        scheme.erase(std::remove_if(scheme.begin(), scheme.end(), is_nothing), scheme.end());
    } while (join_two(scheme));
    return scheme;
}

Walk::Walk(Scheme scheme, std::uint64_t seed)
    : current(std::move(scheme)), best(current), dice{seed == 0 ? 0x9E3779B97F4A7C15ULL : seed} {}

void Walk::rebuild() {
    const std::size_t rank = current.size();
    for (int axis = 0; axis < 3; ++axis) {
        columns_[axis].resize(rank);
        for (std::size_t i = 0; i < rank; ++i) columns_[axis][i] = current[i][axis];
        pairs_[axis].clear();
        degree_[axis].assign(rank, 0);
        for (std::size_t i = 0; i < rank; ++i)
            for (std::size_t j = i + 1; j < rank; ++j)
                if (current[i][axis] == current[j][axis]) {
                    pairs_[axis].push_back({static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(j)});
                    ++degree_[axis][i];
                    ++degree_[axis][j];
                }
    }
}

// The factor of one row has changed: its pairs on that axis are found anew.
void Walk::refresh(int axis, std::uint16_t row) {
    std::vector<Pair>& pairs = pairs_[axis];
    std::vector<std::uint16_t>& degree = degree_[axis];
    for (std::size_t k = 0; degree[row] > 0;) {
        const Pair pair = pairs[k];
        if (pair.first != row && pair.second != row) {
            ++k;
            continue;
        }
        --degree[pair.first];
        --degree[pair.second];
        pairs[k] = pairs.back();
        pairs.pop_back();
    }
    const Mask factor = current[row][axis];
    std::vector<Mask>& column = columns_[axis];
    column[row] = factor;
    if (count_equal(column.data(), column.size(), factor) == 1) return;
    for (std::size_t other = 0; other < column.size(); ++other)
        if (column[other] == factor && other != row) {
            pairs.push_back({row, static_cast<std::uint16_t>(other)});
            ++degree[row];
            ++degree[other];
        }
}

void Walk::drop(std::size_t row) {
    current[row] = current.back();
    current.pop_back();
}

bool Walk::plus() {
    const std::uint32_t rank = static_cast<std::uint32_t>(current.size());
    for (int attempt = 0; attempt < 1000 && rank > 1; ++attempt) {
        const std::uint32_t i = dice.below(rank), j = dice.below(rank);
        if (i == j) continue;
        const int x = static_cast<int>(dice.below(3));
        const int y = (x + 1 + static_cast<int>(dice.below(2))) % 3, z = 3 - x - y;
        const Row a = current[i], b = current[j];
        if (a[x] == b[x] || a[y] == b[y] || a[z] == b[z]) continue;
        // a + b = (ax, ay+by, az) + (ax, by, az+bz) + (ax+bx, by, bz)
        Row added{};
        current[i][y] = a[y] ^ b[y];
        current[j][x] = a[x];
        current[j][z] = a[z] ^ b[z];
        added[x] = a[x] ^ b[x];
        added[y] = b[y];
        added[z] = b[z];
        current.push_back(added);
        rebuild();
        return true;
    }
    return false;
}

bool Walk::flip() {
    const std::uint32_t first = static_cast<std::uint32_t>(pairs_[0].size());
    const std::uint32_t second = first + static_cast<std::uint32_t>(pairs_[1].size());
    const std::uint32_t all = second + static_cast<std::uint32_t>(pairs_[2].size());
    const std::uint64_t throw_ = dice.next();
    std::uint32_t chosen = static_cast<std::uint32_t>(((throw_ >> 32) * all) >> 32);
    const int x = chosen < first ? 0 : chosen < second ? 1 : 2;
    chosen -= x == 0 ? 0 : x == 1 ? first : second;
    const int y = x == 0 ? 1 : 0, z = x == 2 ? 1 : 2;
    Pair pair = pairs_[x][chosen];
    if (throw_ & (1ULL << 20)) std::swap(pair.first, pair.second);
    Row& a = current[pair.first];
    Row& b = current[pair.second];
    a[y] ^= b[y];
    b[z] ^= a[z];
    if (a[y] != 0 && b[z] != 0) {
        refresh(y, pair.first);
        refresh(z, pair.second);
        return false;
    }
    const bool drop_first = a[y] == 0, drop_second = b[z] == 0;
    const std::size_t high = std::max(pair.first, pair.second), low = std::min(pair.first, pair.second);
    if (drop_first && drop_second) {
        drop(high);
        drop(low);
    } else {
        drop(drop_first ? pair.first : pair.second);
    }
    rebuild();
    return true;
}

std::int64_t Walk::go(const Limits& limits) {
    rebuild();  // the order of pairs forgets how they came about: a walk that was put away goes on as if it never stopped
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
        if (flip() && current.size() < best.size()) {
            best = current;
            since_fall = 0;
        }
    }
    return made;
}

}  // namespace matmul
