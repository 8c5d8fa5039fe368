#include "pqn_learner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace engine {

namespace {

constexpr int SPIN_MICROSECONDS = 500;  // longer than the part of an update that one thread does

}  // namespace

PqnLearner::PqnLearner(const PqnConfig& config, std::unique_ptr<Network> network, ObservationReader reader,
                       Parameters parameters, const AdamConfig& adam, RolloutBuffer buffer)
    : config_(config),
      network_(std::move(network)),
      values_(*network_),
      reader_(std::move(reader)),
      buffer_(std::move(buffer)),
      online_(*network_, 1, parameters, adam),
      pool_(config.threads),
      inputs_((buffer_.samples() + buffer_.env_count) * network_->stride(0)),
      keys_(buffer_.samples()),
      order_(buffer_.samples()),
      slice_sums_((config.minibatch_size + BATCH_SLICE - 1) / BATCH_SLICE) {
    for (int worker = 0; worker < config.threads; ++worker) passes_.emplace_back(*network_);
    online_.reserve(static_cast<int>(slice_sums_.size()));
}

void PqnLearner::read_observations(int step) {
    const std::size_t envs = buffer_.env_count, first = step * envs;
    for (std::size_t sample = first; sample < first + envs; ++sample) {
        if (!reader_.read(buffer_.observations, sample, input(sample))) {
            throw std::out_of_range("an observation is not one of its space's categories");
        }
    }
}

void PqnLearner::act(int step, std::int64_t number, double epsilon) {
    const CounterRng decisions(config_.epsilon_seed, number), choices(config_.exploration_seed, number);
    for (int first = 0; first < buffer_.env_count; first += ROWS) {
        const std::size_t sample = static_cast<std::size_t>(step) * buffer_.env_count + first;
        values_.choose({decisions, choices, static_cast<float>(epsilon)}, first,
                       std::min(buffer_.env_count, first + ROWS), buffer_.actions.discrete + sample, passes_[0],
                       online_.weights(), input(sample));
    }
}

std::vector<EpisodeEnd> PqnLearner::collect(NativeEnvs& envs, std::int64_t first_number, const double* epsilons) {
    const std::size_t env_count = buffer_.env_count, size = envs.observation_size();
    float* observations = static_cast<float*>(const_cast<void*>(buffer_.observations));
    std::vector<EpisodeEnd> ends;
    std::vector<Truncation> truncations;
    float final_observation[MAX_OBSERVATION];
    for (int step = 0; step < buffer_.horizon; ++step) {
        read_observations(step);
        act(step, first_number + step, epsilons[step]);
        for (int env = 0; env < buffer_.env_count; ++env) {
            const std::size_t sample = step * env_count + env, next = sample + env_count;
            EpisodeEnd end{};
            const bool has_ended = envs.step_env(env, {buffer_.actions.discrete[sample], nullptr},
                                                 observations + next * size, buffer_.rewards + sample, end,
                                                 final_observation);
            buffer_.terminated[sample] = has_ended && end.terminated;
            buffer_.starts[next] = has_ended;
            if (!has_ended) continue;
            end.step = step;
            ends.push_back(end);
            if (end.terminated) continue;
            truncations.push_back({step, env, std::vector<float>(input_stride()), {}});
            reader_.read(final_observation, 0, truncations.back().observation.data());
        }
    }
    read_observations(buffer_.horizon);
    estimate_returns(truncations);
    return ends;
}

float PqnLearner::largest_value(const float* input) {
    float value;
    passes_[0].forward(online_.weights(), input, 1);
    values_.read_largest(passes_[0], 1, &value);
    return value;
}

void PqnLearner::write_largest_values(std::size_t first, std::size_t last, float* out) {
    for (std::size_t sample = first; sample < last; sample += ROWS) {
        const int rows = static_cast<int>(std::min<std::size_t>(ROWS, last - sample));
        passes_[0].forward(online_.weights(), input(sample), rows);
        values_.read_largest(passes_[0], rows, out + (sample - first));
    }
}

// R_t = r_t + gamma ((1 - lambda) V_t+1 + lambda R_t+1); lambda is 0 where an episode or the rollout ends.
void PqnLearner::estimate_returns(const std::vector<Truncation>& truncations) {
    const std::size_t samples = buffer_.samples(), envs = buffer_.env_count;
    write_largest_values(envs, samples + envs, buffer_.next_values);
    for (std::size_t k = 0; k < samples; ++k) {
        if (buffer_.terminated[k]) buffer_.next_values[k] = 0;
    }
    for (const Truncation& truncation : truncations) {
        buffer_.next_values[truncation.step * envs + truncation.env] = largest_value(truncation.observation.data());
    }
    for (std::size_t k = samples; k-- > 0;) {
        const bool is_last = buffer_.starts[k + envs] || k + envs >= samples;
        const float weight = is_last ? 0.0f : config_.q_lambda;
        const float one_step = buffer_.rewards[k] + config_.gamma * (1 - weight) * buffer_.next_values[k];
        buffer_.returns[k] = is_last ? one_step : one_step + config_.gamma * weight * buffer_.returns[k + envs];
    }
}

// In the order of random keys.
void PqnLearner::shuffle(std::int64_t epoch_number) {
    const CounterRng rng(config_.order_seed, epoch_number);
    for (std::size_t k = 0; k < keys_.size(); ++k) keys_[k] = {rng.bits(k), static_cast<std::int64_t>(k)};
    std::sort(keys_.begin(), keys_.end());
    for (std::size_t k = 0; k < keys_.size(); ++k) order_[k] = keys_[k].second;
}

void PqnLearner::learn_rows(const std::int64_t* samples, int rows, Pass& pass, float* gradient,
                            SliceSums& sums) const {
    const std::size_t stride = network_->stride(0);
    const float scale = 1.0f / static_cast<float>(config_.minibatch_size);
    for (int row = 0; row < rows; ++row) {
        std::memcpy(pass.input() + row * stride, inputs_.data() + samples[row] * stride, stride * sizeof(float));
    }
    pass.forward(online_.weights(), rows);
    for (int row = 0; row < rows; ++row) {
        const int action = static_cast<int>(buffer_.actions.discrete[samples[row]]);
        const float value = values_.value(pass, row, action), error = value - buffer_.returns[samples[row]];
        values_.write_grad(pass, row, action, 2 * error * scale);
        sums.loss += static_cast<double>(error * error) * scale;
        sums.value += static_cast<double>(value) * scale;
    }
    pass.backward(online_.weights(), gradient);
}

double PqnLearner::learn_minibatch(const std::int64_t* samples, double learning_rate, Reducer* reducer) {
    const int slices = static_cast<int>(slice_sums_.size()), threads = std::min(slices, pool_.size());
    const auto learn_slice = [&](int slice, int worker) {
        const int last = std::min((slice + 1) * BATCH_SLICE, config_.minibatch_size);
        float* gradient = online_.begin_gradient(slice, 0);
        slice_sums_[slice] = {};
        for (int row = slice * BATCH_SLICE; row < last; row += ROWS) {
            learn_rows(samples + row, std::min(ROWS, last - row), passes_[worker], gradient, slice_sums_[slice]);
        }
    };
    if (threads == 1) {
        for (int slice = 0; slice < slices; ++slice) learn_slice(slice, 0);
    } else {
        pool_.run([&](int worker) {
            if (worker >= threads) return;
            for (int slice = slices * worker / threads; slice < slices * (worker + 1) / threads; ++slice) {
                learn_slice(slice, worker);
            }
        });
    }
    const double norm = online_.step(slices, learning_rate, pool_, reducer);
    for (const SliceSums& slice : slice_sums_) {
        sums_.loss += slice.loss;
        sums_.value += slice.value;
    }
    sums_.norm += norm;
    sums_.minibatches += 1;
    return norm;
}

double PqnLearner::update(std::int64_t iteration, double learning_rate, Reducer* reducer) {
    const std::size_t samples = buffer_.samples(), width = config_.minibatch_size;
    pool_.set_spin_time(SPIN_MICROSECONDS);
    sums_ = {};
    double norm = 0;
    for (int epoch = 0; epoch < config_.epochs && std::isfinite(norm); ++epoch) {
        shuffle(iteration * config_.epochs + epoch);
        for (std::size_t first = 0; first + width <= samples && std::isfinite(norm); first += width) {
            norm = learn_minibatch(order_.data() + first, learning_rate, reducer);
        }
    }
    pool_.set_spin_time(0);  // other code that steps environments may need the cores
    return norm;
}

}  // namespace engine
