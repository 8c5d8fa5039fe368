// Base of the random walks on the flip graph, for any coefficients: pairs of rows that share a factor, reductions, plus
// transitions and their schedule. `Walk` (CRTP) defines the flip itself, and sum and relative sign of two factors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace matmul {

// xorshift64*: its one word of state fits into a checkpoint.
struct Rng {
    std::uint64_t state;
    std::uint64_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545F4914F6CDD1DULL;
    }
    std::uint32_t below(std::uint32_t count) {
        return static_cast<std::uint32_t>(((next() >> 32) * count) >> 32);
    }
};

constexpr std::uint64_t DEFAULT_SEED = 0x9E3779B97F4A7C15ULL;  // replaces 0, a fixed point of xorshift

struct Limits {
    std::int64_t steps;        // flips of this call
    std::int64_t plus_period;  // flips without a reduction before a plus transition
    int margin;                // how far above the best rank a plus may lead
    int target;                // stop at this rank
};

struct Pair {
    std::uint16_t first, second;
};

// Removes all pairs that contain `one`; its degree (number of pairs) tells when to stop.
inline void remove_pairs_of(std::vector<Pair>& pairs, std::vector<std::uint16_t>& degree, std::size_t one) {
    for (std::size_t k = 0; degree[one] > 0;) {
        const Pair pair = pairs[k];
        if (pair.first != one && pair.second != one) {
            ++k;
            continue;
        }
        --degree[pair.first];
        --degree[pair.second];
        pairs[k] = pairs.back();
        pairs.pop_back();
    }
}

template <class Walk, class Factor>
class FlipWalk {
  public:
    using OwnRow = std::array<Factor, 3>;
    using OwnScheme = std::vector<OwnRow>;

    FlipWalk(OwnScheme scheme, std::uint64_t seed)
        : current(std::move(scheme)), best(current), rng{seed == 0 ? DEFAULT_SEED : seed} {}

    OwnScheme current, best;
    Rng rng;
    std::int64_t since_reduction = 0;

  protected:
    struct PairOnAxis {
        int axis;
        Pair pair;
    };

    std::uint32_t pair_count() const {
        return static_cast<std::uint32_t>(pairs_[0].size() + pairs_[1].size() + pairs_[2].size());
    }

    // Pair number `chosen` over all three axes.
    PairOnAxis pair_at(std::uint32_t chosen) const {
        const std::uint32_t first = static_cast<std::uint32_t>(pairs_[0].size());
        const std::uint32_t second = first + static_cast<std::uint32_t>(pairs_[1].size());
        const int axis = chosen < first ? 0 : chosen < second ? 1 : 2;
        return {axis, pairs_[axis][chosen - (axis == 0 ? 0 : axis == 1 ? first : second)]};
    }

    void find_pairs(int axis) {
        pairs_[axis].clear();
        for (std::size_t i = 0; i < current.size(); ++i)
            for (std::size_t j = i + 1; j < current.size(); ++j)
                if (Walk::relative_sign(current[i][axis], current[j][axis]) != 0)
                    pairs_[axis].push_back({static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(j)});
    }

    // Removes the rows of the pair that have a zero factor.
    void remove_rows(const Pair& pair, bool is_first_zero, bool is_second_zero) {
        if (is_first_zero && is_second_zero) {
            remove_rows(std::max(pair.first, pair.second));
            remove_rows(std::min(pair.first, pair.second));
        } else {
            remove_rows(is_first_zero ? pair.first : pair.second);
        }
        self().rebuild();
    }

    // a + b = (ax, ay+by, az) + (ax, by, bz-az) + (bx-ax, by, bz): the plus transition, one row more.
    // False when no suitable pair of rows was found.
    bool plus() {
        const std::uint32_t rank = static_cast<std::uint32_t>(current.size());
        for (int attempt = 0; attempt < 1000 && rank > 1; ++attempt) {
            const std::uint32_t i = rng.below(rank), j = rng.below(rank);
            if (i == j) continue;
            const int x = static_cast<int>(rng.below(3));
            const int y = (x + 1 + static_cast<int>(rng.below(2))) % 3, z = 3 - x - y;
            const OwnRow a = current[i], b = current[j];
            if (Walk::relative_sign(a[x], b[x]) || Walk::relative_sign(a[y], b[y]) || Walk::relative_sign(a[z], b[z]))
                continue;
            OwnRow added = b;
            Factor sum, difference;
            if (!Walk::add(a[y], b[y], 1, sum) || !Walk::add(b[z], a[z], -1, difference) ||
                !Walk::add(b[x], a[x], -1, added[x]))
                continue;
            current[i][y] = sum;
            current[j][x] = a[x];
            current[j][z] = difference;
            current.push_back(added);
            self().rebuild();
            return true;
        }
        return false;
    }

    // Flips until the target rank, with a plus transition after `plus_period` flips without a reduction. Returns the
    // number of flips.
    template <class AnyLimits>
    std::int64_t run_flips(const AnyLimits& limits) {
        self().rebuild();  // makes the order of pairs a function of `current`, so that a resumed walk takes the same steps
        std::int64_t made = 0;
        while (made < limits.steps && static_cast<int>(best.size()) > limits.target) {
            ++made;
            ++since_reduction;
            const bool is_stuck = pair_count() == 0;
            if (is_stuck || since_reduction >= limits.plus_period) {
                since_reduction = 0;
                const bool may_increase = current.size() < best.size() + static_cast<std::size_t>(limits.margin);
                if (may_increase ? !plus() && is_stuck : is_stuck) return made;  // neither a flip nor a plus is possible
                continue;
            }
            const bool is_reduced = self().flip(limits) && current.size() < best.size();
            if (is_reduced) since_reduction = 0;
            self().update_best(is_reduced);
        }
        return made;
    }

    std::array<std::vector<Pair>, 3> pairs_;  // by axis: rows that share this factor

  private:
    Walk& self() { return static_cast<Walk&>(*this); }

    void remove_rows(std::size_t row) {
        current[row] = current.back();
        current.pop_back();
    }
};

}  // namespace matmul
