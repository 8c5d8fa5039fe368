#include "td3_learner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace engine {

Td3Learner::Td3Learner(const OffPolicyConfig& config, const Td3Config& td3, ReplaySampler sampler, ActionSpace space,
                       ActorCriticParts parts, float* actor_target)
    : ActorCriticLearner(config, std::move(sampler), std::move(space), std::move(parts)),
      td3_(td3),
      actor_target_(actor_, actor_target, actor_.parameter_count()),
      actor_values_(actor_.weights().values()) {}

void Td3Learner::pack() {
    ActorCriticLearner::pack();
    actor_target_.pack();
}

void Td3Learner::read_actions(const Pass& actor, int rows, float* actions) const {
    const int slot = actor_network_->action_slot;
    for (int row = 0; row < rows; ++row) {
        std::memcpy(actions + row * parts(), actor.output(slot) + row * actor.stride(slot), parts() * sizeof(float));
    }
}

void Td3Learner::act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) {
    static_cast<void>(exploration);
    const CounterRng rng(config_.seeds.exploration, number);
    Pass& pass = workspaces_[0].actor;
    pass.forward(actor_.weights(), inputs, last - first);
    float* actions = continuous_action(first);
    read_actions(pass, last - first, actions);
    for (int k = 0; k < (last - first) * parts(); ++k) {
        const float noisy = actions[k] + td3_.exploration_noise * rng.normal(static_cast<std::size_t>(first) * parts() + k);
        actions[k] = std::clamp(noisy, -1.0f, 1.0f);
    }
}

void Td3Learner::write_targets(int first, int rows, const CounterRng& noise, Workspace& workspace) {
    float* actions = workspace.actions.data();
    workspace.actor.forward(actor_target_.weights(), next_observations(first), rows);
    read_actions(workspace.actor, rows, actions);
    for (int k = 0; k < rows * parts() && td3_.target_noise > 0; ++k) {
        const float drawn = td3_.target_noise * noise.normal(static_cast<std::size_t>(first) * parts() + k);
        const float limited = std::clamp(drawn, -td3_.target_noise_clip, td3_.target_noise_clip);
        actions[k] = std::clamp(actions[k] + limited, -1.0f, 1.0f);
    }
    const float* input = critic_input(workspace.critics[0], next_observations(first), actions, rows);
    pass_critics(critic_targets_, input, rows, workspace);
    for (int row = 0; row < rows; ++row) {
        workspace.targets.data()[row] =
            batch_.rewards[first + row] + batch_.discounts[first + row] * workspace.values.data()[row];
    }
}

// The mean of -Q(s, pi(s)), of the first critic.
void Td3Learner::learn_actor(int first, int rows, Workspace& workspace, float* gradient, Figures& figures) {
    const int slot = actor_network_->action_slot, value_slot = critic_network_->value_slot;
    const int begin = actor_network_->size(0);
    const float scale = 1.0f / static_cast<float>(batch_size());
    workspace.actor.forward(actor_.weights(), observations(first), rows);
    read_actions(workspace.actor, rows, workspace.actions.data());
    Pass& critic = workspace.critics[0];
    const float* input = critic_input(critic, observations(first), workspace.actions.data(), rows);
    critic.forward(critics_.weights(0), input, rows);
    const std::size_t value_stride = critic.stride(value_slot), stride = workspace.actor.stride(slot);
    float* value_grads = critic.output_grads(value_slot);
    std::fill_n(value_grads, rows * value_stride, 0.0f);
    for (int row = 0; row < rows; ++row) {
        figures[ACTOR_LOSS] -= static_cast<double>(critic.output(value_slot)[row * value_stride]) * scale;
        value_grads[row * value_stride] = -scale;
    }
    const float* by_input = critic.input_grads(critics_.weights(0), begin, begin + parts());
    float* grads = workspace.actor.output_grads(slot);
    std::fill_n(grads, rows * stride, 0.0f);
    for (int row = 0; row < rows; ++row) {
        std::memcpy(grads + row * stride, by_input + row * critic.input_stride() + begin, parts() * sizeof(float));
    }
    workspace.actor.backward(actor_.weights(), gradient);
}

double Td3Learner::update(const Update& update) {
    const CounterRng noise(config_.seeds.target_noise, update.number);
    double norm = update_critics(update, update.rates.learning_rate, noise);
    if (!std::isfinite(norm) || !is_actor_due(update)) return norm;
    Figures sums;
    norm = update_actor(
        update,
        [&](int first, int rows, Workspace& workspace, float* gradient, Figures& figures) {
            learn_actor(first, rows, workspace, gradient, figures);
        },
        sums);
    if (!std::isfinite(norm)) return norm;
    add_figures(sums);
    actor_updates_ += 1;
    critic_targets_.follow(critic_values_, tau_);
    actor_target_.follow(actor_values_, tau_);
    return norm;
}

std::vector<NamedFigure> Td3Learner::named_figures() const {
    std::vector<NamedFigure> named = critic_figures();
    named.push_back({"losses/actor_loss", figures_[ACTOR_LOSS], actor_updates_});
    return named;
}

}  // namespace engine
