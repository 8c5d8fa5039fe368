#include "dqn_learner.hpp"

#include <algorithm>
#include <cmath>

namespace engine {

DqnLearner::DqnLearner(const OffPolicyConfig& config, const DqnConfig& dqn, ReplaySampler sampler, ActionSpace space,
                       std::unique_ptr<Network> network, Parameters parameters, const AdamConfig& adam, float* target,
                       std::unique_ptr<PriorityTree> priorities)
    : OffPolicyLearner(config, std::move(sampler), std::move(space), network->stride(0)),
      dqn_(dqn),
      network_(std::move(network)),
      values_(*network_),
      online_(*network_, 1, parameters, adam),
      target_(online_, target, parameters.count),
      priorities_(std::move(priorities)),
      td_errors_(config.batch_size) {
    for (int worker = 0; worker < config.threads; ++worker) workspaces_.emplace_back(*network_);
    online_.reserve(slices());
}

void DqnLearner::pack() {
    online_.pack();
    target_.pack();
}

void DqnLearner::update_targets() { target_.follow(online_.weights().values(), dqn_.tau); }

void DqnLearner::act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) {
    const CounterRng decisions(config_.seeds.epsilon, number), choices(config_.seeds.exploration, number);
    Pass& pass = workspaces_[0].online;
    values_.choose({decisions, choices, static_cast<float>(exploration)}, first, last, discrete_action(first), pass,
                   online_.weights(), inputs);
}

void DqnLearner::draw(const Update& update) {
    if (!priorities_) return OffPolicyLearner::draw(update);
    priorities_->draw(CounterRng(config_.seeds.replay, update.number), batch_size(), update.rates.second_rate, batch_);
}

void DqnLearner::row_added(int row) {
    if (priorities_) priorities_->add_row(row, sampler_.position().position, sampler_.arrays().env_count);
}

float DqnLearner::next_value(const Workspace& workspace, int row) const {
    return values_.value(workspace.target, row, values_.greedy(dqn_.is_double ? workspace.next : workspace.target, row));
}

void DqnLearner::learn_rows(int first, int rows, Workspace& workspace, float* gradient, Figures& figures) {
    const std::size_t stride = input_stride();
    const float scale = 1.0f / static_cast<float>(batch_size());
    const float* next = batch_.next_observations.data() + first * stride;
    workspace.target.forward(target_.weights(), next, rows);
    if (dqn_.is_double) workspace.next.forward(online_.weights(), next, rows);
    workspace.online.forward(online_.weights(), batch_.observations.data() + first * stride, rows);
    for (int row = 0; row < rows; ++row) {
        const int k = first + row, action = static_cast<int>(batch_.choices[k]);
        const float target = batch_.rewards[k] + batch_.discounts[k] * next_value(workspace, row);
        const float value = values_.value(workspace.online, row, action), error = value - target, size = std::fabs(error);
        const bool is_linear = dqn_.is_huber && size >= 1;
        const float loss = is_linear ? size - 0.5f : dqn_.is_huber ? 0.5f * error * error : error * error;
        const float grad = is_linear ? std::copysign(1.0f, error) : dqn_.is_huber ? error : 2 * error;
        td_errors_[k] = error;
        values_.write_grad(workspace.online, row, action, grad * batch_.weights[k] * scale);
        figures[0] += static_cast<double>(loss * batch_.weights[k]) * scale;
        figures[1] += static_cast<double>(value) * scale;
    }
    workspace.online.backward(online_.weights(), gradient);
}

double DqnLearner::update(const Update& update) {
    add_figures(for_each_slice([&](int slice, int first, int last, int worker) {
        float* gradient = online_.begin_gradient(slice, 0);
        for (int row = first; row < last; row += ROWS) {
            learn_rows(row, std::min(ROWS, last - row), workspaces_[worker], gradient, slice_figures_[slice]);
        }
    }));
    const double norm = online_.step(slices(), update.rates.learning_rate, pool_, update.reducer);
    figures_[2] += norm;
    if (priorities_ && std::isfinite(norm)) priorities_->update(batch_, td_errors_.data(), batch_size());
    return norm;
}

std::vector<NamedFigure> DqnLearner::named_figures() const {
    return {{"losses/td_loss", figures_[0], updates_},
            {"losses/q_values", figures_[1], updates_},
            {"losses/grad_norm", figures_[2], updates_}};
}

}  // namespace engine
