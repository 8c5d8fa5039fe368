#include "learner.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace engine {

namespace {

int slices_of(int minibatch_size) { return (minibatch_size + SLICE - 1) / SLICE; }

}  // namespace

Bench::Bench(const Plan& plan)
    : values(plan.block_size),
      before(plan.keeps_inputs_of_activations ? plan.block_size : 0),
      slopes(plan.block_size),
      input(static_cast<std::size_t>(ROWS) * plan.strides[0]) {}

Learner::Learner(std::unique_ptr<Network> network, HeadPlan head, Reader reader, Parameters parameters,
                 Recording recording, int threads)
    : network_(std::move(network)),
      head_(std::move(head)),
      reader_(std::move(reader)),
      parameters_(parameters),
      recording_(recording),
      crew_(threads),
      dice_(0, 0),
      packed_(network_->plan().packed_size),
      inputs_((recording.samples() + recording.env_count) * network_->stride(0)) {
    if (reader_.size != network_->size(0) || head_.size != network_->size(network_->action_slot)) {
        throw std::invalid_argument("the network's ends do not fit what is read and what is drawn");
    }
    for (int bench = 0; bench < threads; ++bench) benches_.emplace_back(network_->plan());
}

void Learner::begin(std::uint64_t seed, std::uint64_t iteration) {
    dice_ = Dice(seed, iteration);
    network_->kernels().pack(network_->plan(), parameters_.values, packed_.data());
}

const float* Learner::log_std() const {
    return head_.kind == Head::NORMAL ? parameters_.values + head_.log_std : nullptr;
}

void Learner::read(int step, int first, int last) {
    const std::size_t stride = network_->stride(0);
    for (int env = first; env < last; ++env) {
        const std::size_t row = static_cast<std::size_t>(step) * recording_.env_count + env;
        if (!reader_.read(recording_.observations, row, inputs_.data() + row * stride)) {
            throw std::out_of_range("an observation is none of its space's choices");
        }
    }
}

void Learner::act(int step, int first, int last, int bench_number) {
    Bench& bench = benches_[bench_number];
    const std::size_t stride = network_->stride(0), action_stride = network_->stride(network_->action_slot);
    const float* numbers = bench.values.data() + network_->place(network_->action_slot);
    for (int env = first; env < last; env += ROWS) {
        const int rows = std::min(ROWS, last - env);
        const std::size_t sample = static_cast<std::size_t>(step) * recording_.env_count + env;
        network_->kernels().forward(network_->plan(), packed_.data(), inputs_.data() + sample * stride,
                                    bench.values.data(), nullptr, rows, FOR_ACTION);
        for (int row = 0; row < rows; ++row) {
            recording_.log_probs[sample + row] =
                draw(head_, numbers + row * action_stride, log_std(), dice_, (sample + row) * head_.parts(),
                     recording_.actions, sample + row);
        }
    }
}

void Learner::judge_rows(std::size_t first, std::size_t last, Bench& bench, float* last_values) {
    const std::size_t stride = network_->stride(0), value_stride = network_->stride(network_->value_slot);
    const float* value = bench.values.data() + network_->place(network_->value_slot);
    const std::size_t samples = recording_.samples();
    for (std::size_t row = first; row < last; row += ROWS) {
        const int rows = static_cast<int>(std::min<std::size_t>(ROWS, last - row));
        network_->kernels().forward(network_->plan(), packed_.data(), inputs_.data() + row * stride,
                                    bench.values.data(), nullptr, rows, FOR_VALUE);
        for (int k = 0; k < rows; ++k) {
            float* to = row + k < samples ? recording_.values + row + k : last_values + (row + k - samples);
            *to = value[k * value_stride];
        }
    }
}

void Learner::judge(const std::vector<Cut>& cuts) {
    const std::size_t samples = recording_.samples(), envs = recording_.env_count, all = samples + envs;
    std::vector<float> last_values(envs);
    const std::size_t blocks = (all + ROWS - 1) / ROWS, size = crew_.size();
    const std::size_t helpers = blocks < 2 * size ? 1 : size;  // too little to be worth a call
    const std::function<void(int)> share = [&](int number) {
        const std::size_t worker = number;
        if (worker >= helpers) return;
        judge_rows(blocks * worker / helpers * ROWS, std::min(all, blocks * (worker + 1) / helpers * ROWS),
                   benches_[worker], last_values.data());
    };
    helpers == 1 ? share(0) : crew_.run(share);
    for (std::size_t sample = 0; sample < samples; ++sample) {
        const std::size_t next = sample + envs;
        const float follows = next < samples ? recording_.values[next] : last_values[next - samples];
        recording_.next_values[sample] = recording_.terminated[sample] ? 0.0f : follows;
    }
    const float* value = benches_[0].values.data() + network_->place(network_->value_slot);
    for (const Cut& cut : cuts) {
        network_->kernels().forward(network_->plan(), packed_.data(), cut.observation.data(),
                                    benches_[0].values.data(), nullptr, 1, FOR_VALUE);
        recording_.next_values[cut.step * envs + cut.env] = value[0];
    }
}

void Learner::estimate(float gamma, float gae_lambda) {
    const int envs = recording_.env_count;
    const float carry = gamma * gae_lambda;
    std::vector<float> running(envs, 0.0f);
    for (int step = recording_.horizon - 1; step >= 0; --step) {
        const std::size_t at = static_cast<std::size_t>(step) * envs;
        for (int env = 0; env < envs; ++env) {
            const std::size_t k = at + env;
            const float surprise =
                recording_.rewards[k] + gamma * recording_.next_values[k] - recording_.values[k];
            running[env] = surprise + (recording_.starts[k + envs] ? 0.0f : carry) * running[env];
            recording_.advantages[k] = running[env];
            recording_.returns[k] = running[env] + recording_.values[k];
        }
    }
}

void Learner::begin_update() {
    terms_ = {};
    norm_sum_ = 0;
    minibatches_ = samples_learned_ = 0;
}

void Learner::loss_of(const std::int64_t* order, int rows, float mean, float factor, float share,
                      const LossWeights& loss, Bench& bench, float* gradient, Terms& terms) const {
    const int action = network_->action_slot, value = network_->value_slot;
    const std::size_t action_stride = network_->stride(action), value_stride = network_->stride(value);
    const float* numbers = bench.values.data() + network_->place(action);
    const float* values = bench.values.data() + network_->place(value);
    float* action_slope = bench.slopes.data() + network_->place(action);
    float* value_slopes = bench.slopes.data() + network_->place(value);
    for (int row = 0; row < rows; ++row) {
        const std::size_t sample = order[row];
        const Before before = {recording_.log_probs[sample], recording_.values[sample],
                               (recording_.advantages[sample] - mean) * factor, recording_.returns[sample]};
        action_slopes(head_, loss, numbers + row * action_stride, log_std(), recording_.actions, sample, before, share,
                      action_slope + row * action_stride, gradient + network_->log_std_slope(), terms);
        value_slopes[row * value_stride] = value_slope(loss, values[row * value_stride], before, share, terms);
    }
}

void Learner::learn_slice(const std::int64_t* order, int count, float mean, float factor, float share,
                          const LossWeights& loss, Bench& bench, float* gradient, Terms& terms) const {
    const Plan& plan = network_->plan();
    const Kernels& kernels = network_->kernels();
    const std::size_t stride = network_->stride(0);
    float* before = plan.keeps_inputs_of_activations ? bench.before.data() : nullptr;
    std::memset(gradient, 0, plan.slopes_size * sizeof(float));
    for (int first = 0; first < count; first += ROWS) {
        const int rows = std::min(ROWS, count - first);
        for (int row = 0; row < rows; ++row) {
            std::memcpy(bench.input.data() + row * stride, inputs_.data() + order[first + row] * stride,
                        stride * sizeof(float));
        }
        kernels.forward(plan, packed_.data(), bench.input.data(), bench.values.data(), before, rows, EVERYTHING);
        loss_of(order + first, rows, mean, factor, share, loss, bench, gradient, terms);
        kernels.backward(plan, parameters_.values, packed_.data(), bench.input.data(), bench.values.data(), before,
                         bench.slopes.data(), gradient, rows);
    }
}

double Learner::step(int slices, const UpdateRates& rates) {
    const Plan& plan = network_->plan();
    const Kernels& kernels = network_->kernels();
    kernels.spread(plan, gradients_.data(), slices, parameters_.gradient);
    if (head_.kind == Head::NORMAL) {
        std::memcpy(parameters_.gradient + head_.log_std, gradients_.data() + network_->log_std_slope(),
                    head_.size * sizeof(float));
    }
    const double norm = std::sqrt(kernels.squares(parameters_.gradient, parameters_.count));
    if (!std::isfinite(norm)) return norm;
    const double count = *parameters_.step_count += 1;
    const double first = 1 - std::pow(static_cast<double>(rates.beta1), count);
    const double second = 1 - std::pow(static_cast<double>(rates.beta2), count);
    const bool is_large = norm > rates.max_grad_norm;
    const AdamStep adam = {is_large ? static_cast<float>(rates.max_grad_norm / (norm + 1e-6)) : 1.0f,
                           rates.beta1,
                           rates.beta2,
                           rates.epsilon,
                           static_cast<float>(rates.learning_rate / first),
                           static_cast<float>(1 / std::sqrt(second)),
                           1.0f - rates.learning_rate * rates.weight_decay};
    kernels.adam(adam, parameters_.count, parameters_.values, parameters_.gradient, parameters_.mean,
                 parameters_.spread);
    kernels.pack(plan, parameters_.values, packed_.data());
    return norm;
}

EpochResult Learner::epoch(const std::int64_t* order, int minibatch_size, const UpdateRates& rates) {
    const Plan& plan = network_->plan();
    const int slices = slices_of(minibatch_size);
    if (gradient_slices_ < static_cast<std::size_t>(slices)) {
        gradients_ = Floats(plan.slopes_size * slices);
        gradient_slices_ = slices;
    }
    EpochResult result{0, 0};
    const float share = 1.0f / static_cast<float>(minibatch_size);
    for (std::size_t first = 0; first + minibatch_size <= recording_.samples(); first += minibatch_size) {
        const std::int64_t* own = order + first;
        float mean = 0, factor = 1;
        if (rates.normalize_advantages && minibatch_size > 1) {
            double sum = 0, squares = 0;
            for (int k = 0; k < minibatch_size; ++k) sum += recording_.advantages[own[k]];
            const double middle = sum / minibatch_size;
            for (int k = 0; k < minibatch_size; ++k) {
                const double centred = recording_.advantages[own[k]] - middle;
                squares += centred * centred;
            }
            mean = static_cast<float>(middle);
            factor = static_cast<float>(1 / (std::sqrt(squares / (minibatch_size - 1)) + 1e-8));
        }
        slice_terms_.assign(slices, Terms{});
        const int helpers = std::min(slices, crew_.size());
        const std::function<void(int)> share_of = [&](int worker) {
            for (int slice = worker; slice < slices; slice += crew_.size()) {
                learn_slice(own + slice * SLICE, std::min(SLICE, minibatch_size - slice * SLICE), mean, factor, share,
                            rates.loss, benches_[worker], gradients_.data() + slice * plan.slopes_size,
                            slice_terms_[slice]);
            }
        };
        helpers == 1 ? share_of(0) : crew_.run(share_of);
        const double norm = step(slices, rates);
        if (!std::isfinite(norm)) return {norm, 0};
        Terms terms;
        for (const Terms& part : slice_terms_) terms.add(part);
        terms_.add(terms);
        norm_sum_ += norm;
        minibatches_ += 1;
        samples_learned_ += minibatch_size;
        result = {norm, terms.divergence / minibatch_size};
    }
    return result;
}

double Learner::explained_variance() const {
    const std::size_t samples = recording_.samples();
    double sum = 0, squares = 0, left = 0, left_squares = 0;
    for (std::size_t k = 0; k < samples; ++k) {
        sum += recording_.returns[k];
        left += static_cast<double>(recording_.returns[k]) - recording_.values[k];
    }
    const double mean = sum / samples, left_mean = left / samples;
    for (std::size_t k = 0; k < samples; ++k) {
        const double away = recording_.returns[k] - mean;
        const double left_away = static_cast<double>(recording_.returns[k]) - recording_.values[k] - left_mean;
        squares += away * away;
        left_squares += left_away * left_away;
    }
    return squares == 0 ? std::nan("") : 1 - left_squares / squares;
}

}  // namespace engine
