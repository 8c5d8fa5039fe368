#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "learner.hpp"

namespace engine {

namespace {

constexpr int TILE = 6;  // rows of a product's register tile, see kernels/matmul.hpp; columns fill whole tiles

int columns_for(bool has_memory, int segment_length) {
    return has_memory ? (SLICE + TILE * segment_length - 1) / (TILE * segment_length) * TILE : SLICE;
}

}  // namespace

MinibatchSplit::MinibatchSplit(bool has_memory, int steps)
    : segment_length(steps),
      slice_columns(columns_for(has_memory, steps)),
      block_columns(has_memory ? slice_columns : ROWS) {}

// Whole blocks of ROWS: a head reads and writes whole SIMD vectors.
int MinibatchSplit::rows() const { return (block_columns * segment_length + ROWS - 1) / ROWS * ROWS; }

Workspace::Workspace(const NetworkLayout& layout, const MinibatchSplit& split, const HeadPlan& head_plan)
    : head(head_plan),
      values(layout.block_size),
      pre_activations(layout.needs_pre_activations ? layout.block_size : 0),
      grads(layout.block_size),
      input(static_cast<std::size_t>(split.rows()) * layout.strides[0]),
      states(static_cast<std::size_t>(std::max(ROWS, split.block_columns)) * layout.state_size),
      samples(split.rows()),
      starts(new bool[split.rows()]()),
      old_log_probs(ROWS),
      old_values(ROWS),
      old_advantages(ROWS),
      old_returns(ROWS) {}

Learner::Learner(std::unique_ptr<Network> network, HeadPlan head, ObservationReader reader, Parameters parameters,
                 RolloutBuffer buffer, int segment_length, int threads)
    : network_(std::move(network)),
      head_(std::move(head)),
      reader_(std::move(reader)),
      parameters_(parameters),
      buffer_(std::move(buffer)),
      split_(network_->has_memory(), segment_length),
      whole_(network_->whole()),
      parts_(network_->parts()),
      recurrent_state_(network_->layout(), buffer_, segment_length),
      codes_(*network_, buffer_),
      pool_(threads),
      rng_(0, 0),
      order_(columns()),
      packed_(network_->layout().packed_size),
      inputs_((buffer_.samples() + buffer_.env_count) * network_->stride(0)),
      part_results_(parts_.size()) {
    if (!network_->has_action() || !network_->has_value()) {
        throw std::invalid_argument("PPO needs a network with actions and a value: action_slot or value_slot is None");
    }
    if (reader_.size != network_->size(0) || head_.size != network_->size(network_->action_slot)) {
        throw std::invalid_argument("the network has " + std::to_string(network_->size(0)) + " inputs and " +
                                    std::to_string(network_->size(network_->action_slot)) +
                                    " action outputs, the observation " + std::to_string(reader_.size) +
                                    " and the action distribution " + std::to_string(head_.size));
    }
    for (int workspace = 0; workspace < threads; ++workspace)
        workspaces_.emplace_back(network_->layout(), split_, head_);
}

void Learner::begin_rollout(std::uint64_t seed, std::uint64_t iteration) {
    rng_ = CounterRng(seed, iteration);
    pool_.set_spin_time(0);  // other code that steps environments may need the cores
    network_->kernels().pack(network_->layout(), parameters_.values, packed_.data());
}

void Learner::forward(const Block& block, int output_mask) const {
    network_->kernels().forward(network_->layout(), parameters_.values, packed_.data(), block, output_mask);
}

const float* Learner::log_std() const {
    return head_.kind == HeadKind::GAUSSIAN ? parameters_.values + head_.log_std : nullptr;
}

void Learner::read_observations(int step, int first, int last) {
    const std::size_t stride = network_->stride(0);
    for (int env = first; env < last; ++env) {
        const std::size_t row = static_cast<std::size_t>(step) * buffer_.env_count + env;
        if (!reader_.read(buffer_.observations, row, inputs_.data() + row * stride)) {
            throw std::out_of_range("an observation is not one of its space's categories");
        }
    }
    if (codes_.is_empty()) return;
    for (int env = first; env < last; ++env) codes_.read(static_cast<std::size_t>(step) * buffer_.env_count + env);
}

void Learner::act(int step, int first, int last, int workspace_number) {
    Workspace& workspace = workspaces_[workspace_number];
    const std::size_t stride = network_->stride(0), action_stride = network_->stride(network_->action_slot);
    const std::size_t value_stride = network_->stride(network_->value_slot);
    const float* numbers = workspace.values.data() + network_->offset(network_->action_slot);
    const float* values = workspace.values.data() + network_->offset(network_->value_slot);
    const bool is_recurrent = network_->has_memory();  // then the values are computed now: later the states are gone
    if (is_recurrent) recurrent_state_.record(step, first, last);
    for (int env = first; env < last; env += ROWS) {
        const int rows = std::min(ROWS, last - env);
        const std::size_t sample = static_cast<std::size_t>(step) * buffer_.env_count + env;
        const Block block = {1,
                             rows,
                             inputs_.data() + sample * stride,
                             workspace.values.data(),
                             nullptr,
                             buffer_.starts + sample,
                             recurrent_state_.current(env),
                             codes_.row(sample)};
        forward(block, is_recurrent ? EVERYTHING : FOR_ACTION);
        workspace.head.set_outputs(numbers, action_stride, rows, log_std());
        workspace.head.sample(network_->kernels(), rng_, sample, buffer_.actions, buffer_.log_probs + sample);
        if (!is_recurrent) continue;
        for (int row = 0; row < rows; ++row) buffer_.values[sample + row] = values[row * value_stride];
    }
}

void Learner::parallel_rows(std::size_t rows, const std::function<void(std::size_t, std::size_t, int)>& work) {
    const std::size_t blocks = (rows + ROWS - 1) / ROWS, size = pool_.size();
    if (size == 1 || blocks < 2 * size) return work(0, rows, 0);  // too little work to share
    pool_.run([&](int worker) {
        work(blocks * worker / size * ROWS, std::min(rows, blocks * (worker + 1) / size * ROWS), worker);
    });
}

void Learner::act_all(int step) {
    parallel_rows(buffer_.env_count, [&](std::size_t first, std::size_t last, int worker) {
        act(step, static_cast<int>(first), static_cast<int>(last), worker);
    });
}

void Learner::evaluate_rows(std::size_t first, std::size_t last, Workspace& workspace, float* last_values) {
    const std::size_t stride = network_->stride(0), value_stride = network_->stride(network_->value_slot);
    const float* value = workspace.values.data() + network_->offset(network_->value_slot);
    const std::size_t samples = buffer_.samples();
    for (std::size_t row = first; row < last; row += ROWS) {
        const int rows = static_cast<int>(std::min<std::size_t>(ROWS, last - row));
        const Block block = {
            1,       rows,           inputs_.data() + row * stride, workspace.values.data(), nullptr, nullptr,
            nullptr, codes_.row(row)};
        forward(block, FOR_VALUE);
        for (int k = 0; k < rows; ++k) {
            float* to = row + k < samples ? buffer_.values + row + k : last_values + (row + k - samples);
            *to = value[k * value_stride];
        }
    }
}

void Learner::evaluate_all(float* last_values) {
    parallel_rows(buffer_.samples() + buffer_.env_count, [&](std::size_t first, std::size_t last, int worker) {
        evaluate_rows(first, last, workspaces_[worker], last_values);
    });
}

// Recurrent networks: the values after the last step, without changing the recurrent states.
void Learner::evaluate_last(float* last_values) {
    Workspace& workspace = workspaces_[0];
    const std::size_t samples = buffer_.samples(), state = recurrent_state_.size();
    const std::size_t value_stride = network_->stride(network_->value_slot);
    const float* value = workspace.values.data() + network_->offset(network_->value_slot);
    for (int env = 0; env < buffer_.env_count; env += ROWS) {
        const int rows = std::min(ROWS, buffer_.env_count - env);
        std::memcpy(workspace.states.data(), recurrent_state_.current(env), rows * state * sizeof(float));
        const Block block = {1,
                             rows,
                             inputs_.data() + (samples + env) * network_->stride(0),
                             workspace.values.data(),
                             nullptr,
                             buffer_.starts + samples + env,
                             workspace.states.data(),
                             codes_.row(samples + env)};
        forward(block, EVERYTHING);
        for (int k = 0; k < rows; ++k) last_values[env + k] = value[k * value_stride];
    }
}

float Learner::evaluate_truncation(const Truncation& truncation) {
    Workspace& workspace = workspaces_[0];
    const bool is_start = false;  // the states continue the episode
    if (network_->has_memory()) {
        std::memcpy(workspace.states.data(), recurrent_state_.after_truncation(truncation.step, truncation.env),
                    recurrent_state_.size() * sizeof(float));
    }
    const Block block = {1,       1,         truncation.observation.data(), workspace.values.data(),
                         nullptr, &is_start, workspace.states.data(),       truncation.codes.data()};
    forward(block, FOR_VALUE);
    return workspace.values.data()[network_->offset(network_->value_slot)];
}

void Learner::evaluate_values(const std::vector<Truncation>& truncations) {
    const std::size_t samples = buffer_.samples(), envs = buffer_.env_count;
    std::vector<float> last_values(envs);
    network_->has_memory() ? evaluate_last(last_values.data()) : evaluate_all(last_values.data());
    for (std::size_t sample = 0; sample < samples; ++sample) {
        const std::size_t next = sample + envs;
        const float follows = next < samples ? buffer_.values[next] : last_values[next - samples];
        buffer_.next_values[sample] = buffer_.terminated[sample] ? 0.0f : follows;
    }
    for (const Truncation& truncation : truncations)
        buffer_.next_values[truncation.step * envs + truncation.env] = evaluate_truncation(truncation);
}

void Learner::estimate_advantages(float gamma, float gae_lambda) {
    const int envs = buffer_.env_count;
    const float carry = gamma * gae_lambda;
    std::vector<float> running(envs, 0.0f);
    for (int step = buffer_.horizon - 1; step >= 0; --step) {
        const std::size_t at = static_cast<std::size_t>(step) * envs;
        for (int env = 0; env < envs; ++env) {
            const std::size_t k = at + env;
            const float td_error = buffer_.rewards[k] + gamma * buffer_.next_values[k] - buffer_.values[k];
            running[env] = td_error + (buffer_.starts[k + envs] ? 0.0f : carry) * running[env];
            buffer_.advantages[k] = running[env];
            buffer_.returns[k] = running[env] + buffer_.values[k];
        }
    }
}

}  // namespace engine
