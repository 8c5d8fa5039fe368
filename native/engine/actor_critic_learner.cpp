#include "actor_critic_learner.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace engine {

ActorCriticLearner::Workspace::Workspace(const Network& actor, const Network& critic, int copies, int parts)
    : actor(actor),
      actions(static_cast<std::size_t>(ROWS) * parts),
      targets(ROWS),
      values(static_cast<std::size_t>(ROWS) * critic.size(critic.value_slot)) {
    for (int copy = 0; copy < copies; ++copy) critics.emplace_back(critic);
}

ActorCriticLearner::ActorCriticLearner(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space,
                                       ActorCriticParts parts)
    : OffPolicyLearner(config, std::move(sampler), std::move(space), parts.actor->stride(0)),
      actor_network_(std::move(parts.actor)),
      critic_network_(std::move(parts.critic)),
      actor_(*actor_network_, 1, parts.actor_parameters, parts.adam),
      critics_(*critic_network_, parts.critics, parts.critic_parameters, parts.adam),
      critic_targets_(critics_, parts.critic_targets, parts.critic_parameters.count),
      critic_values_(parts.critic_parameters.values),
      tau_(parts.tau),
      policy_interval_(parts.policy_interval) {
    if (parts.critics > MAX_CRITICS || policy_interval_ < 1) {
        throw std::invalid_argument(std::to_string(parts.critics) + " critics (at most " + std::to_string(MAX_CRITICS) +
                                    ") and policy_interval=" + std::to_string(policy_interval_) + " (at least 1)");
    }
    for (int worker = 0; worker < config.threads; ++worker) {
        workspaces_.emplace_back(*actor_network_, *critic_network_, parts.critics, space_.parts());
    }
    actor_.reserve(slices());
    critics_.reserve(slices());
}

void ActorCriticLearner::pack() {
    actor_.pack();
    critics_.pack();
    critic_targets_.pack();
}

const float* ActorCriticLearner::critic_input(Pass& pass, const float* observations, const float* actions,
                                              int rows) const {
    if (!has_continuous_actions()) return observations;
    const std::size_t from_stride = input_stride(), stride = pass.input_stride();
    const std::size_t size = actor_network_->size(0), action_size = parts();
    for (int row = 0; row < rows; ++row) {
        float* to = pass.input() + row * stride;
        std::memcpy(to, observations + row * from_stride, size * sizeof(float));
        std::memcpy(to + size, actions + row * action_size, action_size * sizeof(float));
    }
    return pass.input();
}

// The critic with the smallest value has all of the gradient; equal values share it, as in torch.min.
void ActorCriticLearner::backward_smallest(int rows, Workspace& workspace, float* action_grads) const {
    const int slot = critic_network_->value_slot, first = actor_network_->size(0), last = first + parts();
    const float scale = -1.0f / static_cast<float>(batch_size());
    const float* smallest = workspace.values.data();
    const std::size_t copies = workspace.critics.size(), stride = workspace.critics[0].stride(slot);
    std::fill_n(action_grads, static_cast<std::size_t>(rows) * parts(), 0.0f);
    for (std::size_t copy = 0; copy < copies; ++copy) {
        Pass& pass = workspace.critics[copy];
        const float* values = pass.output(slot);
        const float* others = copies > 1 ? workspace.critics[1 - copy].output(slot) : nullptr;
        float* grads = pass.output_grads(slot);
        std::fill_n(grads, rows * stride, 0.0f);
        for (int row = 0; row < rows; ++row) {
            const float value = values[row * stride];
            if (value > smallest[row]) continue;
            grads[row * stride] = others && others[row * stride] == value ? 0.5f * scale : scale;
        }
        const float* by_input = pass.input_grads(critics_.weights(static_cast<int>(copy)), first, last);
        const std::size_t input_stride = pass.input_stride();
        for (int row = 0; row < rows; ++row) {
            for (int k = 0; k < parts(); ++k) action_grads[row * parts() + k] += by_input[row * input_stride + first + k];
        }
    }
}

void ActorCriticLearner::learn_critics(int first, int rows, int slice, Workspace& workspace) {
    const int slot = critic_network_->value_slot;
    const float scale = 1.0f / static_cast<float>(batch_size());
    const float* taken = has_continuous_actions() ? batch_.continuous.data() + first * parts() : nullptr;
    Pass& pass = workspace.critics[0];
    const float* input = critic_input(pass, observations(first), taken, rows);
    const std::size_t stride = pass.stride(slot);
    Figures& figures = slice_figures_[slice];
    for (int copy = 0; copy < critics_.copies(); ++copy) {
        pass.forward(critics_.weights(copy), input, rows);
        const float* values = pass.output(slot);
        float* grads = pass.output_grads(slot);
        std::fill_n(grads, rows * stride, 0.0f);
        double sum = 0, squares = 0;
        for (int row = 0; row < rows; ++row) {
            const std::size_t at = row * stride + (taken ? 0 : batch_.choices[first + row]);
            const float error = values[at] - workspace.targets.data()[row];
            grads[at] = 2 * error * scale;
            sum += values[at];
            squares += static_cast<double>(error) * error;
        }
        figures[2 * copy] += sum * scale;
        figures[2 * copy + 1] += squares * scale;
        pass.backward(critics_.weights(copy), critics_.gradient(slice, copy));
    }
}

double ActorCriticLearner::update_critics(const Update& update, double learning_rate, const CounterRng& noise) {
    add_figures(for_each_slice([&](int slice, int first, int last, int worker) {
        Workspace& workspace = workspaces_[worker];
        for (int copy = 0; copy < critics_.copies(); ++copy) critics_.begin_gradient(slice, copy);
        for (int row = first; row < last; row += ROWS) {
            const int rows = std::min(ROWS, last - row);
            write_targets(row, rows, noise, workspace);
            learn_critics(row, rows, slice, workspace);
        }
    }));
    return critics_.step(slices(), learning_rate, pool_, update.reducer);
}

std::vector<NamedFigure> ActorCriticLearner::critic_figures() const {
    std::vector<NamedFigure> named;
    double loss = 0;
    for (int copy = 0; copy < critics_.copies(); ++copy) {
        const std::string name = "losses/qf" + std::to_string(copy + 1);
        named.push_back({name + "_values", figures_[2 * copy], updates_});
        named.push_back({name + "_loss", figures_[2 * copy + 1], updates_});
        loss += figures_[2 * copy + 1];
    }
    named.push_back({"losses/qf_loss", loss / critics_.copies(), updates_});
    return named;
}

}  // namespace engine
