#include <algorithm>
#include <cmath>
#include <cstring>

#include "learner.hpp"

namespace engine {

namespace {

constexpr int SPIN_MICROSECONDS = 500;  // longer than a small rollout, so that no thread sleeps through one

// `count` is a multiple of 4. Faster than memcpy, which is a function call for an unknown size.
void copy_row(const float* from, float* to, std::size_t count) {
    for (std::size_t k = 0; k < count; k += 4) std::memcpy(to + k, from + k, 4 * sizeof(float));
}

void add(const LossSums& part, LossSums& sums) {
    sums.objective += part.objective;
    sums.squared_error += part.squared_error;
    sums.entropy += part.entropy;
    sums.log_ratio += part.log_ratio;
    sums.approx_kl += part.approx_kl;
    sums.clip_count += part.clip_count;
}

}  // namespace

void Learner::begin_update(Reducer* reducer) {
    reducer_ = reducer;
    pool_.set_spin_time(SPIN_MICROSECONDS);
    sums_ = {};
    norm_sum_ = 0;
    minibatches_ = samples_learned_ = 0;
}

std::size_t Learner::sample_of(std::int64_t column, int step) const {
    const std::size_t envs = buffer_.env_count, at = column;
    if (split_.segment_length == 1) return at;
    return (at / envs * split_.segment_length + step) * envs + at % envs;
}

// Several accumulators, so that additions do not wait for each other.
template <typename Term>
double Learner::sum_of_advantages(const std::int64_t* columns, int count, const Term& term) const {
    constexpr int SUMS = 4;
    double sums[SUMS] = {};
    long offset = 0;
    for (int k = 0; k < count; ++k) {
        for (int step = 0; step < split_.segment_length; ++step) {
            sums[offset++ % SUMS] += term(buffer_.advantages[sample_of(columns[k], step)]);
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void Learner::normalize(int width, const UpdateConfig& config) {
    const std::size_t count = columns() / width;
    const double samples = static_cast<double>(width) * split_.segment_length * (reducer_ ? reducer_->world_size() : 1);
    scales_.assign(count, AdvantageScale{0, 1});
    if (!config.normalize_advantages || samples < 2) return;
    std::vector<double> means(count), squared_sum(count);
    const auto columns_of = [&](std::size_t number) { return order_.data() + number * width; };
    for (std::size_t k = 0; k < count; ++k) {
        means[k] =
            sum_of_advantages(columns_of(k), width, [](float advantage) { return static_cast<double>(advantage); });
    }
    if (reducer_) reducer_->sum(means.data(), count);
    for (std::size_t k = 0; k < count; ++k) {
        const double mean = means[k] /= samples;
        squared_sum[k] = sum_of_advantages(columns_of(k), width,
                                           [mean](float advantage) { return (advantage - mean) * (advantage - mean); });
    }
    if (reducer_) reducer_->sum(squared_sum.data(), count);
    for (std::size_t k = 0; k < count; ++k) {
        scales_[k] = {static_cast<float>(means[k]),
                      static_cast<float>(1 / (std::sqrt(squared_sum[k] / (samples - 1)) + 1e-8))};
    }
}

void Learner::gather(const std::int64_t* columns, int count, Workspace& workspace) const {
    const std::size_t stride = network_->stride(0), state = recurrent_state_.size();
    const std::size_t used = (network_->size(0) + 3) / 4 * 4;  // the padding is zero in both
    std::size_t row = 0;
    for (int step = 0; step < split_.segment_length; ++step) {
        for (int k = 0; k < count; ++k, ++row) {
            const std::size_t sample = sample_of(columns[k], step);
            workspace.samples[row] = sample;
            workspace.starts[row] = buffer_.starts[sample];
            copy_row(inputs_.data() + sample * stride, workspace.input.data() + row * stride, used);
        }
    }
    if (!state) return;
    for (int k = 0; k < count; ++k) {
        std::memcpy(workspace.states.data() + k * state, recurrent_state_.at_segment_start(columns[k]),
                    state * sizeof(float));
    }
}

OldSamples Learner::gather_old(int first, int rows, Workspace& workspace) const {
    const OldSamples old = {workspace.old_log_probs.data(), workspace.old_values.data(),
                            workspace.old_advantages.data(), workspace.old_returns.data()};
    for (int row = 0; row < rows; ++row) {
        const std::size_t sample = workspace.samples[first + row];
        workspace.old_log_probs.data()[row] = buffer_.log_probs[sample];
        workspace.old_values.data()[row] = buffer_.values[sample];
        workspace.old_advantages.data()[row] = (buffer_.advantages[sample] - scale_.mean) * scale_.factor;
        workspace.old_returns.data()[row] = buffer_.returns[sample];
    }
    return old;
}

void Learner::compute_loss(int output_mask, int first, int rows, const LossWeights& weights, Workspace& workspace,
                           float* gradient, LossSums& sums) const {
    const Kernels& kernels = network_->kernels();
    const auto at = [&](int slot) {
        return network_->offset(slot) + static_cast<std::size_t>(first) * network_->stride(slot);
    };
    const int action = network_->action_slot, value = network_->value_slot;
    const OldSamples old = gather_old(first, rows, workspace);
    if (output_mask & FOR_ACTION) {
        workspace.head.set_outputs(workspace.values.data() + at(action), network_->stride(action), rows, log_std());
        workspace.head.load_actions(buffer_.actions, workspace.samples.data() + first);
        workspace.head.backward(kernels, old, weights, workspace.grads.data() + at(action),
                                gradient + network_->log_std_gradient(), sums);
    }
    if (!(output_mask & FOR_VALUE)) return;
    HeadRows values{};
    values.rows = rows;
    values.outputs = workspace.values.data() + at(value);
    values.stride = network_->stride(value);
    kernels.value_loss(values, old, weights, workspace.grads.data() + at(value), sums);
}

void Learner::compute_slice_gradient(const Part& part, const std::int64_t* columns, int first_column, int count,
                                     const LossWeights& weights, Workspace& workspace, float* gradient,
                                     LossSums& sums) {
    const NetworkLayout& layout = part.layout;
    const Kernels& kernels = network_->kernels();
    float* pre_activations = layout.needs_pre_activations ? workspace.pre_activations.data() : nullptr;
    std::memset(gradient + layout.first_gradient, 0, (layout.last_gradient - layout.first_gradient) * sizeof(float));
    for (int first = 0; first < count; first += split_.block_columns) {
        const int some = std::min(split_.block_columns, count - first), rows = some * split_.segment_length;
        const std::size_t at =
            static_cast<std::size_t>(first_column + first) * split_.segment_length;  // first row in the minibatch
        gather(columns + first, some, workspace);
        const Block block = {
            split_.segment_length,   some,
            workspace.input.data(),  workspace.values.data(),
            pre_activations,         workspace.starts.get(),
            workspace.states.data(), codes_.is_empty() ? nullptr : codes_.gather(workspace.samples, rows, at)};
        kernels.forward(layout, parameters_.values, packed_.data(), block, EVERYTHING);
        for (int row = 0; row < rows; row += ROWS) {
            compute_loss(part.output_mask, row, std::min(ROWS, rows - row), weights, workspace, gradient, sums);
        }
        kernels.backward(layout, parameters_.values, packed_.data(), block, workspace.grads.data(), gradient);
        if (!codes_.is_empty()) codes_.store_gradients(workspace.grads.data(), rows, at);
    }
}

void Learner::compute_gradients(const std::int64_t* columns, int count, const LossWeights& weights) {
    const int size = split_.slice_columns, slices = (count + size - 1) / size;
    const int parts =
        pool_.size() == 1 ? 1 : static_cast<int>(parts_.size());  // one thread gathers the samples only once
    const int tasks = parts * slices, workers = std::min(tasks, pool_.size());
    const std::function<void(int)> parallel_rows = [&](int worker) {
        if (worker >= workers) return;
        for (int task = tasks * worker / workers; task < tasks * (worker + 1) / workers; ++task) {
            const int slice = task % slices, first_column = slice * size;
            compute_slice_gradient(parts == 1 ? whole_ : parts_[task / slices], columns + first_column, first_column,
                                   std::min(size, count - first_column), weights, workspaces_[worker],
                                   gradients_.data() + slice * whole_.layout.gradient_size, slice_results_[task].sums);
        }
    };
    slice_results_.assign(tasks, TaskResult{});
    workers == 1 ? parallel_rows(0) : pool_.run(parallel_rows);
}

void Learner::for_each_part(const std::function<void(std::size_t)>& work) {
    if (parts_.size() > 1 && pool_.size() > 1) {
        return pool_.run([&](int worker) {
            if (static_cast<std::size_t>(worker) < parts_.size()) work(worker);
        });
    }
    for (std::size_t number = 0; number < parts_.size(); ++number) work(number);
}

void Learner::gather_gradients(const Part& part, int slices, int minibatch_size) {
    float* flat = parameters_.gradient;
    network_->kernels().unpack_gradients(part.layout, gradients_.data(), slices, flat);
    if (!codes_.is_empty()) codes_.write_gradients(minibatch_size, pool_, flat);
    if (head_.kind == HeadKind::GAUSSIAN && (part.output_mask & FOR_ACTION)) {
        std::memcpy(flat + head_.log_std, gradients_.data() + network_->log_std_gradient(), head_.size * sizeof(float));
    }
}

double Learner::squared_norm(const Part& part) const {
    double sum = 0;
    for (const Range& own : part.parameters) {
        sum += network_->kernels().squared_sum(parameters_.gradient + own.begin, own.end - own.begin);
    }
    return sum;
}

double Learner::gradient_norm(int slices, int minibatch_size) {
    const auto square = [&](std::size_t number) { part_results_[number].squared_sum = squared_norm(parts_[number]); };
    for_each_part([&](std::size_t number) {
        gather_gradients(parts_[number], slices, minibatch_size);
        if (!reducer_) square(number);  // while the gradients are in this core's cache
    });
    if (reducer_) {
        reducer_->average(parameters_.gradient, parameters_.count);
        for_each_part(square);
    }
    double sum = 0;
    for (const TaskResult& part : part_results_) sum += part.squared_sum;
    return std::sqrt(sum);
}

double Learner::optimizer_step(int slices, int minibatch_size, const UpdateConfig& config) {
    const Kernels& kernels = network_->kernels();
    const double norm = gradient_norm(slices, minibatch_size);
    if (!std::isfinite(norm)) return norm;
    const double count = *parameters_.step_count += 1;
    const double first = 1 - std::pow(static_cast<double>(config.beta1), count);
    const double second = 1 - std::pow(static_cast<double>(config.beta2), count);
    const bool is_large = norm > config.max_grad_norm;
    const AdamStep adam = {is_large ? static_cast<float>(config.max_grad_norm / (norm + 1e-6)) : 1.0f,
                           config.beta1,
                           config.beta2,
                           config.epsilon,
                           static_cast<float>(config.learning_rate / first),
                           static_cast<float>(1 / std::sqrt(second)),
                           1.0f - config.learning_rate * config.weight_decay};
    for_each_part([&](std::size_t number) {
        for (const Range& own : parts_[number].parameters) {
            kernels.adam(adam, own.end - own.begin, parameters_.values + own.begin, parameters_.gradient + own.begin,
                         parameters_.exp_avg + own.begin, parameters_.exp_avg_sq + own.begin);
        }
        kernels.pack(parts_[number].layout, parameters_.values, packed_.data());
    });
    return norm;
}

EpochResult Learner::run_epoch(const UpdateConfig& config) {
    const int minibatch_size = config.minibatch_size;
    const int width = minibatch_size / split_.segment_length, size = split_.slice_columns;  // in columns
    const int slices = (width + size - 1) / size;
    if (gradient_slices_ < static_cast<std::size_t>(slices)) {
        gradients_ = FloatArray(whole_.layout.gradient_size * slices);
        gradient_slices_ = slices;
    }
    codes_.reserve(minibatch_size);
    EpochResult result{0, 0};
    LossWeights weights = config.loss;
    weights.inverse_batch_size = 1.0f / static_cast<float>(minibatch_size);
    normalize(width, config);
    for (std::size_t first = 0; first + width <= columns(); first += width) {
        scale_ = scales_[first / width];
        compute_gradients(order_.data() + first, width, weights);
        const double norm = optimizer_step(slices, minibatch_size, config);
        if (!std::isfinite(norm)) return {norm, 0};
        LossSums sums{};
        for (const TaskResult& slice : slice_results_) add(slice.sums, sums);
        add(sums, sums_);
        norm_sum_ += norm;
        minibatches_ += 1;
        samples_learned_ += minibatch_size;
        result = {norm, sums.approx_kl / minibatch_size};
    }
    if (reducer_ && std::isfinite(config.target_kl)) {
        reducer_->sum(&result.approx_kl, 1);
        result.approx_kl /= reducer_->world_size();
    }
    return result;
}

double Learner::update(const NumpyBitGenerator& generator, const UpdateConfig& config, Reducer* reducer) {
    estimate_advantages(config.gamma, config.gae_lambda);
    begin_update(reducer);
    EpochResult result{0, 0};
    for (int number = 0; number < config.epochs; ++number) {
        permute(generator, order_);
        result = run_epoch(config);
        if (!std::isfinite(result.norm) || result.approx_kl > config.target_kl) break;
    }
    return result.norm;
}

}  // namespace engine
