#include "action_head.hpp"

#include <algorithm>
#include <cmath>

namespace engine {

ActionHead::ActionHead(const HeadPlan& plan)
    : plan_(plan),
      choices_(static_cast<std::size_t>(plan.parts()) * ROWS),
      inverse_std_(plan.size),
      taken_(static_cast<std::size_t>(plan.size) * ROWS),
      class_log_probs_(static_cast<std::size_t>(plan.size) * ROWS),
      class_probs_(static_cast<std::size_t>(plan.size) * ROWS),
      entropies_(static_cast<std::size_t>(plan.parts()) * ROWS),
      log_probs_(ROWS) {}

void ActionHead::set_outputs(const float* outputs, std::size_t stride, int rows, const float* log_std) {
    rows_ = {plan_.counts.data(),
             plan_.parts(),
             plan_.size,
             rows,
             outputs,
             stride,
             log_std,
             inverse_std_.data(),
             choices_.data(),
             taken_.data(),
             log_probs_.data(),
             class_log_probs_.data(),
             class_probs_.data(),
             entropies_.data()};
    if (plan_.kind != HeadKind::GAUSSIAN) return;
    for (int k = 0; k < plan_.size; ++k) inverse_std_.data()[k] = std::exp(-log_std[k]);
}

void ActionHead::sample(const Kernels& kernels, const CounterRng& rng, std::size_t first, const Actions& actions,
                        float* log_probs) {
    if (plan_.kind == HeadKind::CATEGORICAL) {
        kernels.log_softmax(rows_);
        sample_categorical(rng, first, actions.discrete, log_probs);
    } else {
        sample_gaussian(rng, first, actions.continuous);
        // From the rounded actions that the update reads: the probability ratio must start at 1.
        kernels.gaussian_log_probs(rows_, log_probs_.data());
        std::copy_n(log_probs_.data(), rows_.rows, log_probs);
    }
}

void ActionHead::sample_categorical(const CounterRng& rng, std::size_t first, std::int64_t* actions,
                                    float* log_probs) const {
    const int parts = plan_.parts();
    for (int row = 0; row < rows_.rows; ++row) {
        const std::size_t counter = (first + row) * parts;
        const float *prob = class_probs_.data() + row, *log_p = class_log_probs_.data() + row;
        float log_prob = 0;
        for (int part = 0; part < parts; ++part) {
            const int count = plan_.counts[part];
            const float target = rng.uniform(counter + part);
            int choice = 0;
            float cumulative = prob[0];
            while (choice < count - 1 && cumulative <= target) cumulative += prob[++choice * ROWS];
            actions[counter + part] = choice;
            log_prob += log_p[choice * ROWS];
            prob += count * ROWS;
            log_p += count * ROWS;
        }
        log_probs[row] = log_prob;
    }
}

void ActionHead::sample_gaussian(const CounterRng& rng, std::size_t first, float* actions) {
    for (int k = 0; k < plan_.size; ++k) {
        const float std = std::exp(rows_.log_std[k]);
        for (int row = 0; row < rows_.rows; ++row) {
            const std::size_t counter = (first + row) * plan_.size + k;
            const float action = rows_.outputs[row * rows_.stride + k] + rng.normal(counter) * std;
            actions[counter] = action;
            taken_.data()[k * ROWS + row] = action;
        }
    }
}

void ActionHead::load_actions(const Actions& actions, const std::size_t* samples) {
    const int parts = plan_.parts();
    for (int row = 0; row < rows_.rows; ++row) {
        const std::size_t first = samples[row] * parts;
        for (int part = 0; part < parts; ++part) {
            if (plan_.kind == HeadKind::CATEGORICAL) {
                choices_[part * ROWS + row] = static_cast<int>(actions.discrete[first + part]);
            } else {
                taken_.data()[part * ROWS + row] = actions.continuous[first + part];
            }
        }
    }
}

void ActionHead::backward(const Kernels& kernels, const OldSamples& old, const LossWeights& weights, float* grads,
                          float* log_std_grads, LossSums& sums) {
    if (plan_.kind == HeadKind::CATEGORICAL) {
        kernels.log_softmax(rows_);
        kernels.categorical_loss(rows_, old, weights, grads, sums);
    } else {
        kernels.gaussian_log_probs(rows_, log_probs_.data());
        kernels.gaussian_loss(rows_, old, weights, grads, log_std_grads, sums);
    }
}

}  // namespace engine
