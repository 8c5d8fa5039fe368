// Distributions over actions and PPO's loss, for kernels_body.hpp: registers hold one figure of several samples.

INLINE Vector gathered(const float* from, std::size_t stride) {
    Vector vector;
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH; ++k) vector[k] = from[k * stride];
    return vector;
}

INLINE void scatter(float* to, std::size_t stride, Vector vector) {
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH; ++k) to[k * stride] = vector[k];
}

// log p = number - largest - log(sum(exp(number - largest))), of each choice by itself.
void chances(const HeadRows& head) {
    for (int row = 0; row < head.rows; row += WIDTH) {
        const float* numbers = head.numbers + row * head.stride;
        int first = 0;
        for (int part = 0; part < head.parts; first += head.counts[part++]) {
            const int last = first + head.counts[part];
            Vector largest = gathered(numbers + first, head.stride), sum = Vector{};
            store(head.logs + first * ROWS + row, largest);
            for (int k = first + 1; k < last; ++k) {
                const Vector number = gathered(numbers + k, head.stride);
                store(head.logs + k * ROWS + row, number);
                largest = larger(largest, number);
            }
            for (int k = first; k < last; ++k) {
                const Vector away = load(head.logs + k * ROWS + row) - largest, share = exp_of(away);
                store(head.logs + k * ROWS + row, away);
                store(head.shares + k * ROWS + row, share);
                sum += share;
            }
            const Vector log_sum = log_of(sum);
            for (int k = first; k < last; ++k) {
                float *log = head.logs + k * ROWS + row, *share = head.shares + k * ROWS + row;
                store(log, load(log) - log_sum);
                store(share, load(share) / sum);
            }
        }
    }
}

// Of normals: `logs` becomes how many deviations an action was away from its mean.
void normal_log_probs(const HeadRows& head, float* log_probs) {
    constexpr float HALF_LOG_TWO_PI = 0.91893853f;
    for (int row = 0; row < head.rows; row += WIDTH) {
        Vector log_prob = Vector{};
        for (int k = 0; k < head.size; ++k) {
            const Vector number = gathered(head.numbers + row * head.stride + k, head.stride);
            const Vector away = (load(head.taken + k * ROWS + row) - number) * head.inverse_std[k];
            store(head.logs + k * ROWS + row, away);
            log_prob += -0.5f * away * away - head.log_std[k] - HALF_LOG_TWO_PI;
        }
        store(log_probs + row, log_prob);
    }
}

// Lanes that hold a sample of the block.
INLINE Ints living(int row, int rows) {
    Ints lane;
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH; ++k) lane[k] = k;
    return lane + row < rows;
}

// Sums over samples, lane by lane.
struct LossLanes {
    Vector objective, entropy, log_ratio, divergence, clipped;
};

INLINE void add_up(const LossLanes& lanes, LossSums& sums) {
    sums.objective += static_cast<double>(total_of(lanes.objective));
    sums.entropy += static_cast<double>(total_of(lanes.entropy));
    sums.log_ratio += static_cast<double>(total_of(lanes.log_ratio));
    sums.divergence += static_cast<double>(total_of(lanes.divergence));
    sums.clipped += static_cast<double>(total_of(lanes.clipped));
}

// The slope of the loss by log-probability: none where the clip binds, see algorithms/ppo/loss.py.
INLINE Vector log_prob_slope(const LossWeights& weights, Vector log_prob, Vector entropy, const OldRows& old, int row,
                             Ints is_living, LossLanes& lanes) {
    const Vector nothing = Vector{}, advantage = load(old.advantages + row);
    const Vector log_ratio = log_prob - load(old.log_probs + row), ratio = exp_of(log_ratio);
    const Vector low = Vector{} + (1.0f - weights.clip), high = Vector{} + (1.0f + weights.clip);
    const Vector free = advantage * ratio, bound = advantage * smaller(high, larger(low, ratio));
    const Ints is_clipped = bound < free;
    lanes.objective += is_living ? (is_clipped ? bound : free) : nothing;
    lanes.entropy += is_living ? entropy : nothing;
    lanes.log_ratio += is_living ? log_ratio : nothing;
    lanes.divergence += is_living ? ratio - 1.0f - log_ratio : nothing;
    lanes.clipped += (is_living & is_clipped) ? nothing + 1.0f : nothing;
    return is_clipped ? nothing : -free * weights.share;
}

void choice_loss(const HeadRows& head, const OldRows& old, const LossWeights& weights, float* slopes, LossSums& sums) {
    LossLanes lanes = {};
    for (int row = 0; row < head.rows; row += WIDTH) {
        Vector log_prob = Vector{}, entropy = Vector{};
        int first = 0;
        for (int part = 0; part < head.parts; first += head.counts[part++]) {
            const Ints taken = load(head.choices + part * ROWS + row);
            Vector picked = Vector{}, own = Vector{};
            for (int k = 0; k < head.counts[part]; ++k) {
                const Vector log = load(head.logs + (first + k) * ROWS + row);
                picked = taken == k ? log : picked;
                own -= load(head.shares + (first + k) * ROWS + row) * log;
            }
            store(head.entropies + part * ROWS + row, own);
            log_prob += picked;
            entropy += own;
        }
        const Ints is_living = living(row, head.rows);
        const Vector by_log_prob = log_prob_slope(weights, log_prob, entropy, old, row, is_living, lanes);
        const float by_entropy = -weights.entropy * weights.share;
        first = 0;
        for (int part = 0; part < head.parts; first += head.counts[part++]) {
            const Ints taken = load(head.choices + part * ROWS + row);
            const Vector own = load(head.entropies + part * ROWS + row);
            for (int k = 0; k < head.counts[part]; ++k) {
                const Vector log = load(head.logs + (first + k) * ROWS + row);
                const Vector all = load(head.shares + (first + k) * ROWS + row) * (-by_log_prob - by_entropy * (log + own));
                scatter(slopes + row * head.stride + first + k, head.stride, taken == k ? all + by_log_prob : all);
            }
        }
    }
    add_up(lanes, sums);
}

void normal_loss(const HeadRows& head, const OldRows& old, const LossWeights& weights, float* slopes,
                 float* log_std_slopes, LossSums& sums) {
    constexpr float HALF_LOG_TWO_PI = 0.91893853f;
    LossLanes lanes = {};
    float entropy = 0;
    for (int k = 0; k < head.size; ++k) entropy += head.log_std[k] + 0.5f + HALF_LOG_TWO_PI;
    for (int row = 0; row < head.rows; row += WIDTH) {
        const Ints is_living = living(row, head.rows);
        const Vector by_log_prob = log_prob_slope(weights, load(head.log_probs + row), Vector{} + entropy, old, row,
                                                  is_living, lanes);
        for (int k = 0; k < head.size; ++k) {
            const Vector away = load(head.logs + k * ROWS + row);
            scatter(slopes + row * head.stride + k, head.stride, by_log_prob * away * head.inverse_std[k]);
            const Vector by_log_std = by_log_prob * (away * away - 1.0f) - weights.entropy * weights.share;
            log_std_slopes[k] += total_of(is_living ? by_log_std : Vector{});
        }
    }
    add_up(lanes, sums);
}

void value_loss(const HeadRows& head, const OldRows& old, const LossWeights& weights, float* slopes, LossSums& sums) {
    const Vector clip = Vector{} + weights.clip;
    Vector squares = Vector{};
    for (int row = 0; row < head.rows; row += WIDTH) {
        const Vector value = gathered(head.numbers + row * head.stride, head.stride);
        const Vector before = load(old.values + row), wanted = load(old.returns + row), error = value - wanted;
        Vector square = error * error, slope = error * (weights.value * weights.share);
        if (weights.clips_value) {
            const Vector shift = value - before;
            const Vector bounded = smaller(clip, larger(-clip, shift)) + (before - wanted);
            const Ints is_bounded = ((shift > clip) | (shift < -clip)) & (bounded * bounded > square);
            square = is_bounded ? bounded * bounded : square;
            slope = is_bounded ? Vector{} : slope;
        }
        squares += living(row, head.rows) ? square : Vector{};
        scatter(slopes + row * head.stride, head.stride, slope);
    }
    sums.squared_error += static_cast<double>(total_of(squares));
}
