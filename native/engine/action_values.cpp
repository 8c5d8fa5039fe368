#include "action_values.hpp"

#include <algorithm>

namespace engine {

namespace {

constexpr std::int64_t NOT_CHOSEN = -1;

}  // namespace

float ActionValues::shift(const Pass& pass, int row) const {
    if (value_slot_ == NO_SLOT) return 0;
    const float* outputs = pass.output(action_slot_) + row * pass.stride(action_slot_);
    float sum = 0;
    for (int k = 0; k < count_; ++k) sum += outputs[k];
    return pass.output(value_slot_)[row * pass.stride(value_slot_)] - sum / static_cast<float>(count_);
}

float ActionValues::value(const Pass& pass, int row, int action) const {
    return pass.output(action_slot_)[row * pass.stride(action_slot_) + action] + shift(pass, row);
}

void ActionValues::read_largest(const Pass& pass, int rows, float* values) const {
    for (int row = 0; row < rows; ++row) values[row] = value(pass, row, greedy(pass, row));
}

// Whatever is added to all advantages leaves the largest where it is.
int ActionValues::greedy(const Pass& pass, int row) const {
    const float* outputs = pass.output(action_slot_) + row * pass.stride(action_slot_);
    return static_cast<int>(std::max_element(outputs, outputs + count_) - outputs);
}

void ActionValues::write_grad(Pass& pass, int row, int action, float grad) const {
    const std::size_t stride = pass.stride(action_slot_);
    float* grads = pass.output_grads(action_slot_) + row * stride;
    std::fill_n(grads, stride, 0.0f);
    if (value_slot_ != NO_SLOT) {
        const std::size_t value_stride = pass.stride(value_slot_);
        float* value_grads = pass.output_grads(value_slot_) + row * value_stride;
        std::fill_n(value_grads, value_stride, 0.0f);
        value_grads[0] = grad;
        std::fill_n(grads, count_, -grad / static_cast<float>(count_));
    }
    grads[action] += grad;
}

// Where all actions are random, no network runs.
void ActionValues::choose(const EpsilonGreedy& exploration, int first, int last, std::int64_t* actions, Pass& pass,
                          const Weights& weights, const float* inputs) const {
    int greedy_count = 0;
    for (int env = first; env < last; ++env) {
        const bool is_random = exploration.decisions.uniform(env) < exploration.epsilon;
        actions[env - first] = is_random ? exploration.choices.below(env, count_) : NOT_CHOSEN;
        greedy_count += !is_random;
    }
    if (!greedy_count) return;
    pass.forward(weights, inputs, last - first);
    for (int row = 0; row < last - first; ++row) {
        if (actions[row] == NOT_CHOSEN) actions[row] = greedy(pass, row);
    }
}

}  // namespace engine
