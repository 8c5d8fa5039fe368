#include "sac_learner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace engine {

float Temperature::value() const { return std::exp(*log_alpha); }

SacLearner::SacLearner(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space, ActorCriticParts parts,
                       const Temperature& temperature)
    : ActorCriticLearner(config, std::move(sampler), std::move(space), std::move(parts)), temperature_(temperature) {}

double SacLearner::update(const Update& update) {
    alpha_ = temperature_.value();
    const CounterRng target_noise(config_.seeds.target_noise, update.number);
    double norm = update_critics(update, update.rates.second_rate, target_noise);
    if (!std::isfinite(norm)) return norm;
    Figures sums{};
    for (int k = 0; is_actor_due(update) && k < policy_interval_; ++k) {
        const CounterRng noise(config_.seeds.noise, update.number + k);
        norm = update_actor(
            update,
            [&](int first, int rows, Workspace& workspace, float* gradient, Figures& figures) {
                learn_actor(first, rows, noise, workspace, gradient, figures);
            },
            sums);
        if (!std::isfinite(norm)) return norm;
        sums[ALPHA] = alpha_;
        learn_temperature(update, sums);
    }
    add_figures(sums);  // of several updates in a row the last one's, as with torch
    actor_updates_ += is_actor_due(update);
    critic_targets_.follow(critic_values_, tau_);
    return norm;
}

// The gradient of log_alpha * (entropy - target).
void SacLearner::learn_temperature(const Update& update, Figures& figures) {
    const Parameters& learned = temperature_.learned;
    if (!learned.count) return;
    const double excess = figures[ENTROPY] - temperature_.target_entropy;
    figures[ALPHA_LOSS] = *learned.values * excess;
    *learned.gradient = static_cast<float>(excess);
    if (update.reducer) update.reducer->average(learned.gradient, 1);
    const AdamStep step = adam_step(temperature_.adam, update.rates.learning_rate, *learned.step_count += 1, 0);
    actor_network_->kernels().adam(step, 1, learned.values, learned.gradient, learned.exp_avg, learned.exp_avg_sq);
    alpha_ = temperature_.value();
}

std::vector<NamedFigure> SacLearner::named_figures() const {
    std::vector<NamedFigure> named = critic_figures();
    named.push_back({"losses/actor_loss", figures_[ACTOR_LOSS], actor_updates_});
    named.push_back({"losses/alpha", figures_[ALPHA], actor_updates_});
    named.push_back({"losses/entropy", figures_[ENTROPY], actor_updates_});
    if (temperature_.learned.count) named.push_back({"losses/alpha_loss", figures_[ALPHA_LOSS], actor_updates_});
    return named;
}

// ---- continuous actions

ContinuousSac::Actions::Actions(int parts)
    : mean(static_cast<std::size_t>(ROWS) * parts),
      log_std(static_cast<std::size_t>(ROWS) * parts),
      noise(static_cast<std::size_t>(ROWS) * parts),
      std(static_cast<std::size_t>(ROWS) * parts),
      unit(static_cast<std::size_t>(ROWS) * parts),
      log_densities(static_cast<std::size_t>(ROWS) * parts),
      grads(static_cast<std::size_t>(ROWS) * parts),
      mean_grads(static_cast<std::size_t>(ROWS) * parts),
      log_std_grads(static_cast<std::size_t>(ROWS) * parts),
      log_probs(ROWS) {}

ContinuousSac::ContinuousSac(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space,
                             ActorCriticParts parts, const Temperature& temperature)
    : SacLearner(config, std::move(sampler), std::move(space), std::move(parts), temperature) {
    for (const float half_width : space_.half_width) log_half_widths_ += std::log(half_width);
    for (int worker = 0; worker < config.threads; ++worker) actions_.emplace_back(space_.parts());
}

void ContinuousSac::sample(const Pass& actor, int first, int rows, const CounterRng& noise, Actions& actions) const {
    const int size = parts(), slot = actor_network_->action_slot;
    const float* outputs = actor.output(slot);
    const std::size_t stride = actor.stride(slot);
    for (int row = 0; row < rows; ++row) {
        std::memcpy(actions.mean.data() + row * size, outputs + row * stride, size * sizeof(float));
        std::memcpy(actions.log_std.data() + row * size, outputs + row * stride + size, size * sizeof(float));
    }
    for (int k = 0; k < rows * size; ++k) {
        actions.noise.data()[k] = noise.normal(static_cast<std::size_t>(first) * size + k);
    }
    actor_network_->kernels().squash({rows * size, actions.mean.data(), actions.log_std.data(), actions.noise.data(),
                                      actions.std.data(), actions.unit.data(), actions.log_densities.data(), nullptr});
    for (int row = 0; row < rows; ++row) {
        float sum = -log_half_widths_;  // the density is that in the environment's units
        for (int k = 0; k < size; ++k) sum += actions.log_densities.data()[row * size + k];
        actions.log_probs.data()[row] = sum;
    }
}

void ContinuousSac::act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) {
    static_cast<void>(exploration);
    Workspace& workspace = workspaces_[0];
    Actions& actions = actions_[0];
    workspace.actor.forward(actor_.weights(), inputs, last - first);
    sample(workspace.actor, first, last - first, CounterRng(config_.seeds.exploration, number), actions);
    std::memcpy(continuous_action(first), actions.unit.data(), (last - first) * parts() * sizeof(float));
}

void ContinuousSac::write_targets(int first, int rows, const CounterRng& noise, Workspace& workspace) {
    Actions& actions = actions_of(workspace);
    workspace.actor.forward(actor_.weights(), next_observations(first), rows);
    sample(workspace.actor, first, rows, noise, actions);
    const float* input = critic_input(workspace.critics[0], next_observations(first), actions.unit.data(), rows);
    pass_critics(critic_targets_, input, rows, workspace);
    for (int row = 0; row < rows; ++row) {
        const float value = workspace.values.data()[row] - alpha_ * actions.log_probs.data()[row];
        workspace.targets.data()[row] = batch_.rewards[first + row] + batch_.discounts[first + row] * value;
    }
}

// The mean of alpha log pi(a | s) - min Q(s, a).
void ContinuousSac::learn_actor(int first, int rows, const CounterRng& noise, Workspace& workspace, float* gradient,
                                Figures& figures) {
    Actions& actions = actions_of(workspace);
    const int size = parts(), slot = actor_network_->action_slot;
    const float scale = 1.0f / static_cast<float>(batch_size());
    workspace.actor.forward(actor_.weights(), observations(first), rows);
    sample(workspace.actor, first, rows, noise, actions);
    const float* input = critic_input(workspace.critics[0], observations(first), actions.unit.data(), rows);
    pass_critics(critics_, input, rows, workspace);
    for (int row = 0; row < rows; ++row) {
        const double log_prob = actions.log_probs.data()[row];
        figures[ACTOR_LOSS] += (alpha_ * log_prob - workspace.values.data()[row]) * scale;
        figures[ENTROPY] -= log_prob * scale;
    }
    backward_smallest(rows, workspace, actions.grads.data());
    const SquashedEntries entries = {rows * size,          actions.mean.data(), actions.log_std.data(),
                                     actions.noise.data(), actions.std.data(),  actions.unit.data(),
                                     nullptr,              actions.grads.data()};
    actor_network_->kernels().squash_backward(entries, alpha_ * scale, actions.mean_grads.data(),
                                              actions.log_std_grads.data());
    float* grads = workspace.actor.output_grads(slot);
    const std::size_t stride = workspace.actor.stride(slot);
    for (int row = 0; row < rows; ++row) {
        std::memcpy(grads + row * stride, actions.mean_grads.data() + row * size, size * sizeof(float));
        std::memcpy(grads + row * stride + size, actions.log_std_grads.data() + row * size, size * sizeof(float));
    }
    workspace.actor.backward(actor_.weights(), gradient);
}

// ---- discrete actions: expectations over all of them instead of samples

namespace {

// Probabilities and their logarithms of one row.
void log_softmax(const float* logits, int count, float* probs, float* log_probs) {
    const float largest = *std::max_element(logits, logits + count);
    float sum = 0;
    for (int k = 0; k < count; ++k) sum += std::exp(logits[k] - largest);
    const float log_sum = std::log(sum);
    for (int k = 0; k < count; ++k) {
        log_probs[k] = logits[k] - largest - log_sum;
        probs[k] = std::exp(log_probs[k]);
    }
}

}  // namespace

DiscreteSac::DiscreteSac(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space,
                         ActorCriticParts parts, const Temperature& temperature)
    : SacLearner(config, std::move(sampler), std::move(space), std::move(parts), temperature) {
    for (int worker = 0; worker < config.threads; ++worker) rows_.emplace_back(space_.choices);
}

void DiscreteSac::act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) {
    static_cast<void>(exploration);
    const CounterRng rng(config_.seeds.exploration, number);
    Row& policy = rows_[0];
    Pass& pass = workspaces_[0].actor;
    pass.forward(actor_.weights(), inputs, last - first);
    for (int env = first; env < last; ++env) {
        read_policy(pass, env - first, policy);
        const float target = rng.uniform(env);
        int choice = 0;
        float cumulative = policy.probs[0];
        while (choice < space_.choices - 1 && cumulative <= target) cumulative += policy.probs[++choice];
        *discrete_action(env) = choice;
    }
}

void DiscreteSac::read_policy(const Pass& pass, int row, Row& policy) const {
    const int slot = actor_network_->action_slot;
    log_softmax(pass.output(slot) + row * pass.stride(slot), space_.choices, policy.probs.data(),
                policy.log_probs.data());
}

void DiscreteSac::write_targets(int first, int rows, const CounterRng& noise, Workspace& workspace) {
    static_cast<void>(noise);
    Row& policy = row_of(workspace);
    workspace.actor.forward(actor_.weights(), next_observations(first), rows);
    pass_critics(critic_targets_, next_observations(first), rows, workspace);
    for (int row = 0; row < rows; ++row) {
        read_policy(workspace.actor, row, policy);
        const float* values = workspace.values.data() + row * space_.choices;
        float value = 0;
        for (int k = 0; k < space_.choices; ++k) {
            value += policy.probs[k] * (values[k] - alpha_ * policy.log_probs[k]);
        }
        workspace.targets.data()[row] = batch_.rewards[first + row] + batch_.discounts[first + row] * value;
    }
}

// The mean of sum(pi(a | s) (alpha log pi(a | s) - min Q(s, a))).
void DiscreteSac::learn_actor(int first, int rows, const CounterRng& noise, Workspace& workspace, float* gradient,
                              Figures& figures) {
    static_cast<void>(noise);
    Row& policy = row_of(workspace);
    const int slot = actor_network_->action_slot, count = space_.choices;
    const float scale = 1.0f / static_cast<float>(batch_size());
    workspace.actor.forward(actor_.weights(), observations(first), rows);
    pass_critics(critics_, observations(first), rows, workspace);
    const std::size_t stride = workspace.actor.stride(slot);
    for (int row = 0; row < rows; ++row) {
        read_policy(workspace.actor, row, policy);
        const float* values = workspace.values.data() + row * count;
        float* grads = workspace.actor.output_grads(slot) + row * stride;
        float loss = 0, log_prob = 0;
        for (int k = 0; k < count; ++k) {
            loss += policy.probs[k] * (alpha_ * policy.log_probs[k] - values[k]);
            log_prob += policy.probs[k] * policy.log_probs[k];
        }
        // The logits' gradient of a mean over the policy: p (what is averaged - its mean); alpha's own term is 0.
        for (int k = 0; k < count; ++k) {
            grads[k] = scale * policy.probs[k] * (alpha_ * policy.log_probs[k] - values[k] - loss);
        }
        std::fill(grads + count, grads + stride, 0.0f);
        figures[ACTOR_LOSS] += static_cast<double>(loss) * scale;
        figures[ENTROPY] -= static_cast<double>(log_prob) * scale;
    }
    workspace.actor.backward(actor_.weights(), gradient);
}

}  // namespace engine
