// Actions of squashed Gaussians, and the gradient of SAC's loss through them; a vector holds entries of several actions.
// Internal linkage: every kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#include "../kernels.hpp"
#include "simd.hpp"

namespace engine {
namespace {

constexpr float HIGHEST_LOG_STD = 2.0f, LOWEST_LOG_STD = -20.0f;  // as in policies/role_distributions.py

// log |d tanh(u) / d u| = 2 (log(2) - u - softplus(-2u)), written so that it keeps its digits where tanh is flat.
INLINE Vector log_slope(Vector u) {
    const Vector x = -2.0f * u, size = max_of(x, -x);
    const Vector softplus = max_of(Vector{}, x) + log_of(1.0f + exp_of(-size));
    return 2.0f * (0.69314718f - u - softplus);
}

void squash(const SquashedEntries& at) {
    constexpr float HALF_LOG_TWO_PI = 0.91893853f;
    const Vector lowest = Vector{} + LOWEST_LOG_STD, highest = Vector{} + HIGHEST_LOG_STD;
    for (int k = 0; k < at.count; k += WIDTH) {
        const Vector noise = load(at.noise + k);
        const Vector log_std = max_of(lowest, min_of(highest, load(at.log_std + k)));
        const Vector std = exp_of(log_std), u = load(at.mean + k) + noise * std;
        store(at.std + k, std);
        store(at.actions + k, tanh_of(u));
        store(at.log_densities + k, -0.5f * noise * noise - log_std - HALF_LOG_TWO_PI - log_slope(u));
    }
}

// d log density / d u = 2 tanh(u), because the noise is given.
void squash_backward(const SquashedEntries& at, float by_log_prob, float* mean_grads, float* log_std_grads) {
    for (int k = 0; k < at.count; k += WIDTH) {
        const Vector action = load(at.actions + k), log_std = load(at.log_std + k);
        const Vector by_u = tanh_backward(load(at.action_grads + k), action) + 2.0f * by_log_prob * action;
        const Vector by_log_std = by_u * load(at.noise + k) * load(at.std + k) - by_log_prob;
        const Ints is_inside = (log_std >= LOWEST_LOG_STD) & (log_std <= HIGHEST_LOG_STD);
        store(mean_grads + k, by_u);
        store(log_std_grads + k, is_inside ? by_log_std : Vector{});
    }
}

}  // namespace
}  // namespace engine
