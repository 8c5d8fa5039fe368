#include "guided_walk.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace matmul {

namespace {

constexpr std::size_t MAX_VISITS = 1 << 20;  // the table of visits is cleared beyond this
constexpr double VISIT_CAP = 4.0;                  // visits saturate here

std::uint64_t mix(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
    return word ^ (word >> 31);
}

std::uint64_t digest_of(Mask x, Mask y, Mask z) {
    return mix(mix(mix(x + 0x9E3779B97F4A7C15ULL) + y) + z);
}

std::uint64_t digest_of(const Row& row) { return digest_of(row[0], row[1], row[2]); }

double bit_count(Mask mask) { return static_cast<double>(__builtin_popcountll(mask)); }

}  // namespace

GuidedWalk::GuidedWalk(Scheme scheme, const Features& weights, std::uint64_t seed)
    : current(std::move(scheme)), rng{seed == 0 ? DEFAULT_SEED : seed}, weights_(weights) {
    digest_ = digest();
    count_visit();
}

std::uint64_t GuidedWalk::digest() const {
    std::uint64_t sum = 0;
    for (const Row& row : current) sum += digest_of(row);
    return sum;
}

void GuidedWalk::count_visit() {
    if (visits_.size() >= MAX_VISITS) visits_.clear();
    ++visits_[digest_];
}

void GuidedWalk::describe_flips() {
    flips_.clear();
    features_.clear();
    const std::size_t rank = current.size();
    for (int axis = 0; axis < 3; ++axis)
        for (std::size_t i = 0; i < rank; ++i)
            for (std::size_t j = 0; j < rank; ++j) {
                if (i == j || current[i][axis] != current[j][axis]) continue;
                const Flip flip{axis, static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(j)};
                flips_.push_back(flip);
                features_.push_back(describe(flip));
            }
}

Features GuidedWalk::describe(const Flip& flip) const {
    const int x = flip.axis, y = x == 0 ? 1 : 0, z = x == 2 ? 1 : 2;
    const Row &a = current[flip.first], &b = current[flip.second];
    const Mask new_y = a[y] ^ b[y], new_z = b[z] ^ a[z];
    double gained = 0, lost = 0, near = 0;
    for (std::size_t k = 0; k < current.size(); ++k) {
        const Row& other = current[k];
        if (k != flip.first) {
            if (other[y] == a[y]) lost += 1;
            if (other[y] == new_y) {
                gained += 1;
                if (other[x] == a[x] || other[z] == a[z]) near = 1;
            }
        }
        if (k != flip.second) {
            if (other[z] == b[z]) lost += 1;
            if (other[z] == new_z) {
                gained += 1;
                if (other[x] == b[x] || other[y] == b[y]) near = 1;
            }
        }
    }
    Row after_a = a, after_b = b;
    after_a[y] = new_y;
    after_b[z] = new_z;
    const std::uint64_t after = digest_ - digest_of(a) - digest_of(b) + digest_of(after_a) + digest_of(after_b);
    const auto found = visits_.find(after);
    const double visits = found == visits_.end() ? 0.0 : static_cast<double>(found->second);
    const bool is_reversal = flip.axis == last_.axis && flip.first == last_.first && flip.second == last_.second;
    return {new_y == 0 || new_z == 0 ? 1.0 : 0.0,
            0.25 * (bit_count(new_y) - bit_count(a[y]) + bit_count(new_z) - bit_count(b[z])),
            gained,
            lost,
            near,
            is_reversal ? 1.0 : 0.0,
            std::min(visits, VISIT_CAP) / VISIT_CAP};
}

std::vector<Features> GuidedWalk::features() {
    describe_flips();
    return features_;
}

void GuidedWalk::take(std::size_t index) {
    const Flip flip = flips_[index];
    const int x = flip.axis, y = x == 0 ? 1 : 0, z = x == 2 ? 1 : 2;
    Row &a = current[flip.first], &b = current[flip.second];
    a[y] ^= b[y];
    b[z] ^= a[z];
    last_ = flip;
    const bool drop_first = a[y] == 0, drop_second = b[z] == 0;
    if (drop_first || drop_second) {
        const std::size_t high = std::max(flip.first, flip.second), low = std::min(flip.first, flip.second);
        const bool drop_high = high == flip.first ? drop_first : drop_second;
        const bool drop_low = low == flip.first ? drop_first : drop_second;
        for (const auto& [row, is_zero_row] : {std::pair{high, drop_high}, std::pair{low, drop_low}})
            if (is_zero_row) {
                current[row] = current.back();
                current.pop_back();
            }
        last_ = Flip{-1, 0, 0};
    }
    digest_ = digest();
    count_visit();
    flips_.clear();
}

std::int64_t GuidedWalk::run(std::int64_t steps, int target) {
    std::int64_t made = 0;
    while (made < steps && static_cast<int>(current.size()) > target) {
        describe_flips();
        if (flips_.empty()) return made;
        mass_.resize(flips_.size());
        double highest = -1e300;
        for (std::size_t k = 0; k < flips_.size(); ++k) {
            double score = 0;
            for (int f = 0; f < FEATURES; ++f) score += weights_[f] * features_[k][f];
            mass_[k] = score;
            highest = std::max(highest, score);
        }
        double total = 0;
        for (double& mass : mass_) total += mass = std::exp(mass - highest);
        double left = static_cast<double>(rng.next() >> 11) * 0x1p-53 * total;
        std::size_t chosen = 0;
        while (chosen + 1 < mass_.size() && left >= mass_[chosen]) left -= mass_[chosen++];
        take(chosen);
        ++made;
    }
    return made;
}

}  // namespace matmul
