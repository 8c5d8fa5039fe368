#include "heads.hpp"

#include <algorithm>
#include <cmath>

namespace engine {

namespace {

constexpr float HALF_LOG_TWO_PI = 0.91893853f;

// The largest number and log(sum(exp(numbers - largest))): log p = number - largest - log_sum.
struct Scale {
    float largest, log_sum;

    float log_of(float number) const { return number - largest - log_sum; }
};

// Fills `shares` with the probabilities.
Scale softmax(const float* numbers, int count, float* shares) {
    float largest = numbers[0], sum = 0;
    for (int k = 1; k < count; ++k) largest = std::max(largest, numbers[k]);
    for (int k = 0; k < count; ++k) {
        shares[k] = std::exp(numbers[k] - largest);
        sum += shares[k];
    }
    for (int k = 0; k < count; ++k) shares[k] /= sum;
    return {largest, std::log(sum)};
}

float entropy_of(const float* numbers, const float* shares, int count, const Scale& scale) {
    float sum = 0;
    for (int k = 0; k < count; ++k) sum -= shares[k] * scale.log_of(numbers[k]);
    return sum;
}

// The slope of the loss by log-probability: none where the clip binds, see training/losses.py.
float log_prob_slope(const LossWeights& weights, float log_prob, float entropy, const Before& before, float share,
                     Terms& terms) {
    const float log_ratio = log_prob - before.log_prob;
    const float ratio = std::exp(log_ratio);
    const float free = before.advantage * ratio;
    const float bound = before.advantage * std::min(std::max(ratio, 1 - weights.clip), 1 + weights.clip);
    const bool is_clipped = bound < free;
    terms.objective += std::min(free, bound);
    terms.entropy += entropy;
    terms.log_ratio += log_ratio;
    terms.divergence += static_cast<double>(ratio) - 1 - log_ratio;
    terms.clipped += is_clipped;
    return is_clipped ? 0.0f : -free * share;
}

void choice_slopes(const HeadPlan& head, const LossWeights& weights, const float* numbers, const std::int64_t* taken,
                   const Before& before, float share, float* slopes, Terms& terms) {
    Scale scales[MAX_PARTS];
    float entropies[MAX_PARTS];
    float log_prob = 0, entropy = 0;
    int first = 0;
    for (int part = 0; part < head.parts(); ++part) {
        const int count = head.counts[part];
        scales[part] = softmax(numbers + first, count, slopes + first);
        entropies[part] = entropy_of(numbers + first, slopes + first, count, scales[part]);
        log_prob += scales[part].log_of(numbers[first + taken[part]]);
        entropy += entropies[part];
        first += count;
    }
    const float by_log_prob = log_prob_slope(weights, log_prob, entropy, before, share, terms);
    const float by_entropy = -weights.entropy * share;
    first = 0;
    for (int part = 0; part < head.parts(); ++part) {
        for (int k = first; k < first + head.counts[part]; ++k) {
            const float log_chance = scales[part].log_of(numbers[k]);
            slopes[k] *= -by_log_prob - by_entropy * (log_chance + entropies[part]);
        }
        slopes[first + taken[part]] += by_log_prob;
        first += head.counts[part];
    }
}

void normal_slopes(const HeadPlan& head, const LossWeights& weights, const float* numbers, const float* log_std,
                   const float* taken, const Before& before, float share, float* slopes, float* log_std_slopes,
                   Terms& terms) {
    float log_prob = 0, entropy = 0;
    for (int k = 0; k < head.size; ++k) {
        const float scaled = (taken[k] - numbers[k]) * std::exp(-log_std[k]);
        slopes[k] = scaled;
        log_prob += -0.5f * scaled * scaled - log_std[k] - HALF_LOG_TWO_PI;
        entropy += log_std[k] + 0.5f + HALF_LOG_TWO_PI;
    }
    const float by_log_prob = log_prob_slope(weights, log_prob, entropy, before, share, terms);
    for (int k = 0; k < head.size; ++k) {
        const float scaled = slopes[k];
        slopes[k] = by_log_prob * scaled * std::exp(-log_std[k]);
        log_std_slopes[k] += by_log_prob * (scaled * scaled - 1) - weights.entropy * share;
    }
}

}  // namespace

void Terms::add(const Terms& other) {
    objective += other.objective;
    squared_error += other.squared_error;
    entropy += other.entropy;
    log_ratio += other.log_ratio;
    divergence += other.divergence;
    clipped += other.clipped;
}

float draw(const HeadPlan& head, const float* numbers, const float* log_std, const Dice& dice, std::uint64_t place,
           const Actions& actions, std::size_t sample) {
    const std::size_t at = sample * head.parts();
    float log_prob = 0;
    if (head.kind == Head::NORMAL) {
        for (int k = 0; k < head.size; ++k) {
            const float noise = dice.normal(place + k);
            const float action = numbers[k] + noise * std::exp(log_std[k]);
            // From the rounded action, as an update will find it: the ratio must begin at one.
            const float scaled = (action - numbers[k]) * std::exp(-log_std[k]);
            actions.numbers[at + k] = action;
            log_prob += -0.5f * scaled * scaled - log_std[k] - HALF_LOG_TWO_PI;
        }
        return log_prob;
    }
    for (int part = 0; part < head.parts(); ++part) {
        const int count = head.counts[part];
        float largest = numbers[0], sum = 0;
        for (int k = 1; k < count; ++k) largest = std::max(largest, numbers[k]);
        for (int k = 0; k < count; ++k) sum += std::exp(numbers[k] - largest);
        const float target = dice.uniform(place + part) * sum;
        int choice = 0;
        float reached = std::exp(numbers[0] - largest);
        while (choice < count - 1 && reached <= target) reached += std::exp(numbers[++choice] - largest);
        actions.choices[at + part] = choice;
        log_prob += Scale{largest, std::log(sum)}.log_of(numbers[choice]);
        numbers += count;
    }
    return log_prob;
}

void action_slopes(const HeadPlan& head, const LossWeights& weights, const float* numbers, const float* log_std,
                   const Actions& actions, std::size_t sample, const Before& before, float share, float* slopes,
                   float* log_std_slopes, Terms& terms) {
    const std::size_t at = sample * head.parts();
    if (head.kind == Head::NORMAL) {
        normal_slopes(head, weights, numbers, log_std, actions.numbers + at, before, share, slopes, log_std_slopes,
                      terms);
    } else {
        choice_slopes(head, weights, numbers, actions.choices + at, before, share, slopes, terms);
    }
}

float value_slope(const LossWeights& weights, float value, const Before& before, float share, Terms& terms) {
    const float error = value - before.wanted_value;
    const float slope = error * weights.value * share;
    if (weights.clip_value) {
        const float shift = value - before.value;
        const float bounded = std::min(std::max(shift, -weights.clip), weights.clip) +
                              (before.value - before.wanted_value);
        if (std::fabs(shift) > weights.clip && bounded * bounded > error * error) {
            terms.squared_error += static_cast<double>(bounded) * bounded;
            return 0;
        }
    }
    terms.squared_error += static_cast<double>(error) * error;
    return slope;
}

}  // namespace engine
