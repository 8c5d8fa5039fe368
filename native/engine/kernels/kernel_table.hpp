// The optimizer's kernels, and the table of all kernels of one CPU family.
// Internal linkage: every kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#include "losses.hpp"
#include "passes.hpp"
#include "squashed.hpp"

namespace engine {
namespace {

double squared_sum(const float* numbers, std::size_t count) {
    Vector sums[4] = {};
    std::size_t at = 0;
    for (; at + 4 * WIDTH <= count; at += 4 * WIDTH) {
        for (int k = 0; k < 4; ++k) {
            const Vector part = load(numbers + at + k * WIDTH);
            sums[k] += part * part;
        }
    }
    const Vector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double total = 0;
    for (int k = 0; k < WIDTH; ++k) total += all[k];
    for (; at < count; ++at) total += static_cast<double>(numbers[at]) * numbers[at];
    return total;
}

void adam(const AdamStep& step, std::size_t count, float* __restrict parameters, float* __restrict gradient,
          float* __restrict exp_avg, float* __restrict exp_avg_sq) {
    const float scale = step.scale, beta1 = step.beta1, beta2 = step.beta2, epsilon = step.epsilon;
    const float step_size = step.step_size, inverse_sqrt_correction2 = step.inverse_sqrt_correction2,
                decay = step.decay;
    const float one_minus_beta1 = 1.0f - beta1, one_minus_beta2 = 1.0f - beta2;
    for (std::size_t k = 0; k < count; ++k) {
        const float grad = gradient[k] * scale;
        const float exp_avg_new = beta1 * exp_avg[k] + one_minus_beta1 * grad;
        const float exp_avg_sq_new = beta2 * exp_avg_sq[k] + one_minus_beta2 * grad * grad;
        gradient[k] = grad;
        exp_avg[k] = exp_avg_new;
        exp_avg_sq[k] = exp_avg_sq_new;
        parameters[k] =
            parameters[k] * decay -
            step_size * exp_avg_new / (__builtin_sqrtf(exp_avg_sq_new) * inverse_sqrt_correction2 + epsilon);
    }
}

void follow(float tau, std::size_t count, const float* __restrict online, float* __restrict target) {
    for (std::size_t k = 0; k < count; ++k) target[k] += tau * (online[k] - target[k]);
}

constexpr Kernels make_kernel_table(const char* name) {
    return {name,
            WIDTH,
            &pack,
            &forward,
            &backward,
            &table_gradients,
            &unpack_gradients,
            &log_softmax,
            &gaussian_log_probs,
            &categorical_loss,
            &gaussian_loss,
            &value_loss,
            &squared_sum,
            &adam,
            &squash,
            &squash_backward,
            &follow};
}

}  // namespace
}  // namespace engine
