// What walks on a flip graph have in common, whatever their coefficients: pairs of rows that share a factor, falls,
// splits, and when to do which. `Walk` is the walk itself; it says what a sum and a likeness of two factors are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace matmul {

// xorshift64*: one word of state, so that a checkpoint holds the whole of it.
struct Dice {
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

constexpr std::uint64_t SOME_SEED = 0x9E3779B97F4A7C15ULL;  // in the place of 0, from which the dice would not move

struct Limits {
    std::int64_t steps;        // flips of this call
    std::int64_t plus_period;  // flips without a fall before a plus
    int margin;                // how far above the best a plus may lead
    int target;                // stop at this rank
};

struct Pair {
    std::uint16_t first, second;
};

// All pairs with this one are taken out; its degree, in how many it is, says when to stop looking.
inline void take_out(std::vector<Pair>& pairs, std::vector<std::uint16_t>& degree, std::size_t one) {
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
        : current(std::move(scheme)), best(current), dice{seed == 0 ? SOME_SEED : seed} {}

    OwnScheme current, best;
    Dice dice;
    std::int64_t since_fall = 0;

  protected:
    struct Place {
        int axis;
        Pair pair;
    };

    std::uint32_t pair_count() const {
        return static_cast<std::uint32_t>(pairs_[0].size() + pairs_[1].size() + pairs_[2].size());
    }

    // Pairs of all three axes, counted through.
    Place pair_at(std::uint32_t chosen) const {
        const std::uint32_t first = static_cast<std::uint32_t>(pairs_[0].size());
        const std::uint32_t second = first + static_cast<std::uint32_t>(pairs_[1].size());
        const int axis = chosen < first ? 0 : chosen < second ? 1 : 2;
        return {axis, pairs_[axis][chosen - (axis == 0 ? 0 : axis == 1 ? first : second)]};
    }

    void find_pairs(int axis) {
        pairs_[axis].clear();
        for (std::size_t i = 0; i < current.size(); ++i)
            for (std::size_t j = i + 1; j < current.size(); ++j)
                if (Walk::likeness(current[i][axis], current[j][axis]) != 0)
                    pairs_[axis].push_back({static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(j)});
    }

    // One of the two rows, or both, have become nothing.
    void drop(const Pair& pair, bool is_first_gone, bool is_second_gone) {
        if (is_first_gone && is_second_gone) {
            drop(std::max(pair.first, pair.second));
            drop(std::min(pair.first, pair.second));
        } else {
            drop(is_first_gone ? pair.first : pair.second);
        }
        self().rebuild();
    }

    // a + b = (ax, ay+by, az) + (ax, by, bz-az) + (bx-ax, by, bz); false when no two rows can be written so.
    bool plus() {
        const std::uint32_t rank = static_cast<std::uint32_t>(current.size());
        for (int attempt = 0; attempt < 1000 && rank > 1; ++attempt) {
            const std::uint32_t i = dice.below(rank), j = dice.below(rank);
            if (i == j) continue;
            const int x = static_cast<int>(dice.below(3));
            const int y = (x + 1 + static_cast<int>(dice.below(2))) % 3, z = 3 - x - y;
            const OwnRow a = current[i], b = current[j];
            if (Walk::likeness(a[x], b[x]) || Walk::likeness(a[y], b[y]) || Walk::likeness(a[z], b[z])) continue;
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

    // Flips, and a plus where nothing fell for long; to the target at most. Returns the flips made.
    template <class SomeLimits>
    std::int64_t walk_on(const SomeLimits& limits) {
        self().rebuild();  // the order of pairs forgets how they came about: a walk that was put away goes on as if not
        std::int64_t made = 0;
        while (made < limits.steps && static_cast<int>(best.size()) > limits.target) {
            ++made;
            ++since_fall;
            const bool is_stuck = pair_count() == 0;
            if (is_stuck || since_fall >= limits.plus_period) {
                since_fall = 0;
                const bool may_rise = current.size() < best.size() + static_cast<std::size_t>(limits.margin);
                if (may_rise ? !plus() && is_stuck : is_stuck) return made;  // nothing can be done from here
                continue;
            }
            const bool has_fallen = self().flip(limits) && current.size() < best.size();
            if (has_fallen) since_fall = 0;
            self().keep(has_fallen);
        }
        return made;
    }

    std::array<std::vector<Pair>, 3> pairs_;  // rows that share this factor

  private:
    Walk& self() { return static_cast<Walk&>(*this); }

    void drop(std::size_t row) {
        current[row] = current.back();
        current.pop_back();
    }
};

}  // namespace matmul
