// Action distributions and PPO's losses; a vector holds one quantity of several samples.
// Internal linkage: every kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#include "../kernels.hpp"
#include "simd.hpp"

namespace engine {
namespace {

INLINE Vector load_strided(const float* from, std::size_t stride) {
    Vector vector;
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH; ++k) vector[k] = from[k * stride];
    return vector;
}

INLINE void store_strided(float* to, std::size_t stride, Vector vector) {
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH; ++k) to[k * stride] = vector[k];
}

// log p = x - max - log(sum(exp(x - max))), for each part of the action.
void log_softmax(const HeadRows& head) {
    for (int row = 0; row < head.rows; row += WIDTH) {
        const float* numbers = head.outputs + row * head.stride;
        int first = 0;
        for (int part = 0; part < head.parts; first += head.counts[part++]) {
            const int last = first + head.counts[part];
            Vector largest = load_strided(numbers + first, head.stride), sum = Vector{};
            store(head.class_log_probs + first * ROWS + row, largest);
            for (int k = first + 1; k < last; ++k) {
                const Vector number = load_strided(numbers + k, head.stride);
                store(head.class_log_probs + k * ROWS + row, number);
                largest = max_of(largest, number);
            }
            for (int k = first; k < last; ++k) {
                const Vector away = load(head.class_log_probs + k * ROWS + row) - largest, share = exp_of(away);
                store(head.class_log_probs + k * ROWS + row, away);
                store(head.class_probs + k * ROWS + row, share);
                sum += share;
            }
            const Vector log_sum = log_of(sum);
            for (int k = first; k < last; ++k) {
                float *log = head.class_log_probs + k * ROWS + row, *share = head.class_probs + k * ROWS + row;
                store(log, load(log) - log_sum);
                store(share, load(share) / sum);
            }
        }
    }
}

// Also writes the z-scores of the actions to `class_log_probs`.
void gaussian_log_probs(const HeadRows& head, float* log_probs) {
    constexpr float HALF_LOG_TWO_PI = 0.91893853f;
    for (int row = 0; row < head.rows; row += WIDTH) {
        Vector log_prob = Vector{};
        for (int k = 0; k < head.size; ++k) {
            const Vector number = load_strided(head.outputs + row * head.stride + k, head.stride);
            const Vector away = (load(head.taken + k * ROWS + row) - number) * head.inverse_std[k];
            store(head.class_log_probs + k * ROWS + row, away);
            log_prob += -0.5f * away * away - head.log_std[k] - HALF_LOG_TWO_PI;
        }
        store(log_probs + row, log_prob);
    }
}

// True in lanes that hold a sample of the block.
INLINE Ints valid_lanes(int row, int rows) {
    Ints lane;
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH; ++k) lane[k] = k;
    return lane + row < rows;
}

// Sums over samples, lane by lane.
struct LossLanes {
    Vector objective, entropy, log_ratio, approx_kl, clip_count;
};

INLINE void accumulate(const LossLanes& lanes, LossSums& sums) {
    sums.objective += static_cast<double>(horizontal_sum(lanes.objective));
    sums.entropy += static_cast<double>(horizontal_sum(lanes.entropy));
    sums.log_ratio += static_cast<double>(horizontal_sum(lanes.log_ratio));
    sums.approx_kl += static_cast<double>(horizontal_sum(lanes.approx_kl));
    sums.clip_count += static_cast<double>(horizontal_sum(lanes.clip_count));
}

// d loss / d log-probability: zero where the clip is active, see algorithms/ppo/loss.py.
INLINE Vector log_prob_grad(const LossWeights& weights, Vector log_prob, Vector entropy, const OldSamples& old, int row,
                            Ints is_valid, LossLanes& lanes) {
    const Vector nothing = Vector{}, advantage = load(old.advantages + row);
    const Vector log_ratio = log_prob - load(old.log_probs + row), ratio = exp_of(log_ratio);
    const Vector low = Vector{} + (1.0f - weights.clip), high = Vector{} + (1.0f + weights.clip);
    const Vector objective = advantage * ratio, clipped_objective = advantage * min_of(high, max_of(low, ratio));
    const Ints is_clipped = clipped_objective < objective;
    lanes.objective += is_valid ? (is_clipped ? clipped_objective : objective) : nothing;
    lanes.entropy += is_valid ? entropy : nothing;
    lanes.log_ratio += is_valid ? log_ratio : nothing;
    lanes.approx_kl += is_valid ? ratio - 1.0f - log_ratio : nothing;
    lanes.clip_count += (is_valid & is_clipped) ? nothing + 1.0f : nothing;
    return is_clipped ? nothing : -objective * weights.inverse_batch_size;
}

void categorical_loss(const HeadRows& head, const OldSamples& old, const LossWeights& weights, float* grads,
                      LossSums& sums) {
    LossLanes lanes = {};
    for (int row = 0; row < head.rows; row += WIDTH) {
        Vector log_prob = Vector{}, entropy = Vector{};
        int first = 0;
        for (int part = 0; part < head.parts; first += head.counts[part++]) {
            const Ints taken = load(head.choices + part * ROWS + row);
            Vector taken_log_prob = Vector{}, own = Vector{};
            for (int k = 0; k < head.counts[part]; ++k) {
                const Vector log = load(head.class_log_probs + (first + k) * ROWS + row);
                taken_log_prob = taken == k ? log : taken_log_prob;
                own -= load(head.class_probs + (first + k) * ROWS + row) * log;
            }
            store(head.entropies + part * ROWS + row, own);
            log_prob += taken_log_prob;
            entropy += own;
        }
        const Ints is_valid = valid_lanes(row, head.rows);
        const Vector by_log_prob = log_prob_grad(weights, log_prob, entropy, old, row, is_valid, lanes);
        const float by_entropy = -weights.entropy_coefficient * weights.inverse_batch_size;
        first = 0;
        for (int part = 0; part < head.parts; first += head.counts[part++]) {
            const Ints taken = load(head.choices + part * ROWS + row);
            const Vector own = load(head.entropies + part * ROWS + row);
            for (int k = 0; k < head.counts[part]; ++k) {
                const Vector log = load(head.class_log_probs + (first + k) * ROWS + row);
                const Vector all =
                    load(head.class_probs + (first + k) * ROWS + row) * (-by_log_prob - by_entropy * (log + own));
                store_strided(grads + row * head.stride + first + k, head.stride, taken == k ? all + by_log_prob : all);
            }
        }
    }
    accumulate(lanes, sums);
}

void gaussian_loss(const HeadRows& head, const OldSamples& old, const LossWeights& weights, float* grads,
                   float* log_std_grads, LossSums& sums) {
    constexpr float HALF_LOG_TWO_PI = 0.91893853f;
    LossLanes lanes = {};
    float entropy = 0;
    for (int k = 0; k < head.size; ++k) entropy += head.log_std[k] + 0.5f + HALF_LOG_TWO_PI;
    for (int row = 0; row < head.rows; row += WIDTH) {
        const Ints is_valid = valid_lanes(row, head.rows);
        const Vector by_log_prob =
            log_prob_grad(weights, load(head.log_probs + row), Vector{} + entropy, old, row, is_valid, lanes);
        for (int k = 0; k < head.size; ++k) {
            const Vector away = load(head.class_log_probs + k * ROWS + row);
            store_strided(grads + row * head.stride + k, head.stride, by_log_prob * away * head.inverse_std[k]);
            const Vector by_log_std =
                by_log_prob * (away * away - 1.0f) - weights.entropy_coefficient * weights.inverse_batch_size;
            log_std_grads[k] += horizontal_sum(is_valid ? by_log_std : Vector{});
        }
    }
    accumulate(lanes, sums);
}

void value_loss(const HeadRows& head, const OldSamples& old, const LossWeights& weights, float* grads, LossSums& sums) {
    const Vector clip = Vector{} + weights.clip;
    Vector squared_sum = Vector{};
    for (int row = 0; row < head.rows; row += WIDTH) {
        const Vector value = load_strided(head.outputs + row * head.stride, head.stride);
        const Vector old_value = load(old.values + row), target = load(old.returns + row), error = value - target;
        Vector square = error * error, grad = error * (weights.value_coefficient * weights.inverse_batch_size);
        if (weights.clips_value_loss) {
            const Vector shift = value - old_value;
            const Vector bounded = min_of(clip, max_of(-clip, shift)) + (old_value - target);
            const Ints is_bounded = ((shift > clip) | (shift < -clip)) & (bounded * bounded > square);
            square = is_bounded ? bounded * bounded : square;
            grad = is_bounded ? Vector{} : grad;
        }
        squared_sum += valid_lanes(row, head.rows) ? square : Vector{};
        store_strided(grads + row * head.stride, head.stride, grad);
    }
    sums.squared_error += static_cast<double>(horizontal_sum(squared_sum));
}

}  // namespace
}  // namespace engine
