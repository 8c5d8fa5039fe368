#include "learner.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace engine {

namespace {

constexpr int EAGER_MICROSECONDS = 500;  // longer than a small rollout: behind it no thread has to be woken
constexpr int TILE = 6;  // rows that a product has in registers, see body_products.hpp: columns come in whole tiles

int columns_for(bool has_memory, int stretch) {
    return has_memory ? (SLICE + TILE * stretch - 1) / (TILE * stretch) * TILE : SLICE;
}

// Counts are whole fours; memcpy of an unknown size is a call.
void copy_row(const float* from, float* to, std::size_t count) {
    for (std::size_t k = 0; k < count; k += 4) std::memcpy(to + k, from + k, 4 * sizeof(float));
}

void add(const LossSums& part, LossSums& sums) {
    sums.objective += part.objective;
    sums.squared_error += part.squared_error;
    sums.entropy += part.entropy;
    sums.log_ratio += part.log_ratio;
    sums.divergence += part.divergence;
    sums.clipped += part.clipped;
}

}  // namespace

Cutting::Cutting(bool has_memory, int steps)
    : stretch(steps),
      slice_columns(columns_for(has_memory, steps)),
      block_columns(has_memory ? slice_columns : ROWS) {}

// Whole blocks of ROWS: a head reads and writes up to whole registers.
int Cutting::rows() const { return (block_columns * stretch + ROWS - 1) / ROWS * ROWS; }

Bench::Bench(const Plan& plan, const Cutting& cutting, const HeadPlan& head_plan)
    : head(head_plan),
      values(plan.block_size),
      before(plan.keeps_inputs_of_activations ? plan.block_size : 0),
      slopes(plan.block_size),
      input(static_cast<std::size_t>(cutting.rows()) * plan.strides[0]),
      states(static_cast<std::size_t>(std::max(ROWS, cutting.block_columns)) * plan.state_size),
      samples(cutting.rows()),
      starts(new bool[cutting.rows()]()),
      old_log_probs(ROWS),
      old_values(ROWS),
      old_advantages(ROWS),
      old_returns(ROWS) {}

Learner::Learner(std::unique_ptr<Network> network, HeadPlan head, Reader reader, Parameters parameters,
                 Recording recording, int stretch, int threads)
    : network_(std::move(network)),
      head_(std::move(head)),
      reader_(std::move(reader)),
      parameters_(parameters),
      recording_(std::move(recording)),
      cutting_(network_->has_memory(), stretch),
      whole_(network_->whole()),
      parts_(network_->parts()),
      memories_(network_->plan(), recording_, stretch),
      codes_(*network_, recording_),
      crew_(threads),
      dice_(0, 0),
      order_(columns()),
      packed_(network_->plan().packed_size),
      inputs_((recording_.samples() + recording_.env_count) * network_->stride(0)),
      parts_told_(parts_.size()) {
    if (reader_.size != network_->size(0) || head_.size != network_->size(network_->action_slot)) {
        throw std::invalid_argument("the network's ends do not fit what is read and what is drawn");
    }
    for (int bench = 0; bench < threads; ++bench) benches_.emplace_back(network_->plan(), cutting_, head_);
}

void Learner::begin(std::uint64_t seed, std::uint64_t iteration) {
    dice_ = Dice(seed, iteration);
    crew_.set_eager(0);  // whoever steps the environments may want the cores
    network_->kernels().pack(network_->plan(), parameters_.values, packed_.data());
}

void Learner::forward(const Block& block, int wanted) const {
    network_->kernels().forward(network_->plan(), parameters_.values, packed_.data(), block, wanted);
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
    if (codes_.is_empty()) return;
    for (int env = first; env < last; ++env) codes_.read(static_cast<std::size_t>(step) * recording_.env_count + env);
}

void Learner::act(int step, int first, int last, int bench_number) {
    Bench& bench = benches_[bench_number];
    const std::size_t stride = network_->stride(0), action_stride = network_->stride(network_->action_slot);
    const std::size_t value_stride = network_->stride(network_->value_slot);
    const float* numbers = bench.values.data() + network_->place(network_->action_slot);
    const float* values = bench.values.data() + network_->place(network_->value_slot);
    const bool remembers = network_->has_memory();  // then values are known now or never
    if (remembers) memories_.keep(step, first, last);
    for (int env = first; env < last; env += ROWS) {
        const int rows = std::min(ROWS, last - env);
        const std::size_t sample = static_cast<std::size_t>(step) * recording_.env_count + env;
        const Block block = {1, rows, inputs_.data() + sample * stride, bench.values.data(), nullptr,
                             recording_.starts + sample, memories_.now(env), codes_.row(sample)};
        forward(block, remembers ? EVERYTHING : FOR_ACTION);
        bench.head.take(numbers, action_stride, rows, log_std());
        bench.head.draw(network_->kernels(), dice_, sample, recording_.actions, recording_.log_probs + sample);
        if (!remembers) continue;
        for (int row = 0; row < rows; ++row) recording_.values[sample + row] = values[row * value_stride];
    }
}

void Learner::share(std::size_t rows, const std::function<void(std::size_t, std::size_t, int)>& work) {
    const std::size_t blocks = (rows + ROWS - 1) / ROWS, size = crew_.size();
    if (size == 1 || blocks < 2 * size) return work(0, rows, 0);  // too little to be worth a call
    crew_.run([&](int worker) {
        work(blocks * worker / size * ROWS, std::min(rows, blocks * (worker + 1) / size * ROWS), worker);
    });
}

void Learner::act_all(int step) {
    share(recording_.env_count, [&](std::size_t first, std::size_t last, int worker) {
        act(step, static_cast<int>(first), static_cast<int>(last), worker);
    });
}

void Learner::judge_rows(std::size_t first, std::size_t last, Bench& bench, float* last_values) {
    const std::size_t stride = network_->stride(0), value_stride = network_->stride(network_->value_slot);
    const float* value = bench.values.data() + network_->place(network_->value_slot);
    const std::size_t samples = recording_.samples();
    for (std::size_t row = first; row < last; row += ROWS) {
        const int rows = static_cast<int>(std::min<std::size_t>(ROWS, last - row));
        const Block block = {1,       rows,    inputs_.data() + row * stride, bench.values.data(), nullptr,
                             nullptr, nullptr, codes_.row(row)};
        forward(block, FOR_VALUE);
        for (int k = 0; k < rows; ++k) {
            float* to = row + k < samples ? recording_.values + row + k : last_values + (row + k - samples);
            *to = value[k * value_stride];
        }
    }
}

void Learner::judge_all(float* last_values) {
    share(recording_.samples() + recording_.env_count, [&](std::size_t first, std::size_t last, int worker) {
        judge_rows(first, last, benches_[worker], last_values);
    });
}

// With memory: only of what the recording ends with, and without remembering it.
void Learner::judge_last(float* last_values) {
    Bench& bench = benches_[0];
    const std::size_t samples = recording_.samples(), state = memories_.size();
    const std::size_t value_stride = network_->stride(network_->value_slot);
    const float* value = bench.values.data() + network_->place(network_->value_slot);
    for (int env = 0; env < recording_.env_count; env += ROWS) {
        const int rows = std::min(ROWS, recording_.env_count - env);
        std::memcpy(bench.states.data(), memories_.now(env), rows * state * sizeof(float));
        const Block block = {1, rows, inputs_.data() + (samples + env) * network_->stride(0), bench.values.data(),
                             nullptr, recording_.starts + samples + env, bench.states.data(),
                             codes_.row(samples + env)};
        forward(block, EVERYTHING);
        for (int k = 0; k < rows; ++k) last_values[env + k] = value[k * value_stride];
    }
}

float Learner::judge_cut(const Cut& cut) {
    Bench& bench = benches_[0];
    const bool goes_on = false;
    if (network_->has_memory()) {
        std::memcpy(bench.states.data(), memories_.after_cut(cut.step, cut.env), memories_.size() * sizeof(float));
    }
    const Block block = {1,        1,       cut.observation.data(), bench.values.data(),
                         nullptr, &goes_on, bench.states.data(),    cut.codes.data()};
    forward(block, FOR_VALUE);
    return bench.values.data()[network_->place(network_->value_slot)];
}

void Learner::judge(const std::vector<Cut>& cuts) {
    const std::size_t samples = recording_.samples(), envs = recording_.env_count;
    std::vector<float> last_values(envs);
    network_->has_memory() ? judge_last(last_values.data()) : judge_all(last_values.data());
    for (std::size_t sample = 0; sample < samples; ++sample) {
        const std::size_t next = sample + envs;
        const float follows = next < samples ? recording_.values[next] : last_values[next - samples];
        recording_.next_values[sample] = recording_.terminated[sample] ? 0.0f : follows;
    }
    for (const Cut& cut : cuts) recording_.next_values[cut.step * envs + cut.env] = judge_cut(cut);
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

void Learner::begin_update(Reducer* reducer) {
    reducer_ = reducer;
    crew_.set_eager(EAGER_MICROSECONDS);
    sums_ = {};
    norm_sum_ = 0;
    minibatches_ = samples_learned_ = 0;
}

std::size_t Learner::sample_of(std::int64_t column, int step) const {
    const std::size_t envs = recording_.env_count, at = column;
    if (cutting_.stretch == 1) return at;
    return (at / envs * cutting_.stretch + step) * envs + at % envs;
}

// Several sums side by side: one alone would wait for each addition before the next.
template <typename Term>
double Learner::sum_of_advantages(const std::int64_t* columns, int count, const Term& part_of) const {
    constexpr int SUMS = 4;
    double sums[SUMS] = {};
    long place = 0;
    for (int k = 0; k < count; ++k) {
        for (int step = 0; step < cutting_.stretch; ++step) {
            sums[place++ % SUMS] += part_of(recording_.advantages[sample_of(columns[k], step)]);
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void Learner::normalize(int width, const UpdateRates& rates) {
    const std::size_t count = columns() / width;
    const double samples = static_cast<double>(width) * cutting_.stretch * (reducer_ ? reducer_->world_size() : 1);
    scales_.assign(count, Scale{0, 1});
    if (!rates.normalize_advantages || samples < 2) return;
    std::vector<double> means(count), squares(count);
    const auto columns_of = [&](std::size_t number) { return order_.data() + number * width; };
    for (std::size_t k = 0; k < count; ++k) {
        means[k] = sum_of_advantages(columns_of(k), width, [](float advantage) { return static_cast<double>(advantage); });
    }
    if (reducer_) reducer_->sum(means.data(), count);
    for (std::size_t k = 0; k < count; ++k) {
        const double mean = means[k] /= samples;
        squares[k] = sum_of_advantages(columns_of(k), width,
                                       [mean](float advantage) { return (advantage - mean) * (advantage - mean); });
    }
    if (reducer_) reducer_->sum(squares.data(), count);
    for (std::size_t k = 0; k < count; ++k) {
        scales_[k] = {static_cast<float>(means[k]),
                      static_cast<float>(1 / (std::sqrt(squares[k] / (samples - 1)) + 1e-8))};
    }
}

void Learner::gather(const std::int64_t* columns, int count, Bench& bench) const {
    const std::size_t stride = network_->stride(0), state = memories_.size();
    const std::size_t used = (network_->size(0) + 3) / 4 * 4;  // what is beyond is zero here and there
    std::size_t row = 0;
    for (int step = 0; step < cutting_.stretch; ++step) {
        for (int k = 0; k < count; ++k, ++row) {
            const std::size_t sample = sample_of(columns[k], step);
            bench.samples[row] = sample;
            bench.starts[row] = recording_.starts[sample];
            copy_row(inputs_.data() + sample * stride, bench.input.data() + row * stride, used);
        }
    }
    if (!state) return;
    for (int k = 0; k < count; ++k) {
        std::memcpy(bench.states.data() + k * state, memories_.before(columns[k]), state * sizeof(float));
    }
}

OldRows Learner::recall(int first, int rows, Bench& bench) const {
    const OldRows old = {bench.old_log_probs.data(), bench.old_values.data(), bench.old_advantages.data(),
                         bench.old_returns.data()};
    for (int row = 0; row < rows; ++row) {
        const std::size_t sample = bench.samples[first + row];
        bench.old_log_probs.data()[row] = recording_.log_probs[sample];
        bench.old_values.data()[row] = recording_.values[sample];
        bench.old_advantages.data()[row] = (recording_.advantages[sample] - scale_.mean) * scale_.factor;
        bench.old_returns.data()[row] = recording_.returns[sample];
    }
    return old;
}

void Learner::loss_of(int wanted, int first, int rows, const LossWeights& weights, Bench& bench, float* gradient,
                      LossSums& sums) const {
    const Kernels& kernels = network_->kernels();
    const auto at = [&](int slot) { return network_->place(slot) + static_cast<std::size_t>(first) * network_->stride(slot); };
    const int action = network_->action_slot, value = network_->value_slot;
    const OldRows old = recall(first, rows, bench);
    if (wanted & FOR_ACTION) {
        bench.head.take(bench.values.data() + at(action), network_->stride(action), rows, log_std());
        bench.head.recall(recording_.actions, bench.samples.data() + first);
        bench.head.judge(kernels, old, weights, bench.slopes.data() + at(action), gradient + network_->log_std_slope(),
                         sums);
    }
    if (!(wanted & FOR_VALUE)) return;
    HeadRows values{};
    values.rows = rows;
    values.numbers = bench.values.data() + at(value);
    values.stride = network_->stride(value);
    kernels.value_loss(values, old, weights, bench.slopes.data() + at(value), sums);
}

void Learner::learn_slice(const Part& part, const std::int64_t* columns, int first_column, int count,
                          const LossWeights& weights, Bench& bench, float* gradient, LossSums& sums) {
    const Plan& plan = part.plan;
    const Kernels& kernels = network_->kernels();
    float* before = plan.keeps_inputs_of_activations ? bench.before.data() : nullptr;
    std::memset(gradient + plan.first_slope, 0, (plan.last_slope - plan.first_slope) * sizeof(float));
    for (int first = 0; first < count; first += cutting_.block_columns) {
        const int some = std::min(cutting_.block_columns, count - first), rows = some * cutting_.stretch;
        const std::size_t at = static_cast<std::size_t>(first_column + first) * cutting_.stretch;  // in the minibatch
        gather(columns + first, some, bench);
        const Block block = {cutting_.stretch,
                             some,
                             bench.input.data(),
                             bench.values.data(),
                             before,
                             bench.starts.get(),
                             bench.states.data(),
                             codes_.is_empty() ? nullptr : codes_.gather(bench.samples, rows, at)};
        kernels.forward(plan, parameters_.values, packed_.data(), block, EVERYTHING);
        for (int row = 0; row < rows; row += ROWS) {
            loss_of(part.wanted, row, std::min(ROWS, rows - row), weights, bench, gradient, sums);
        }
        kernels.backward(plan, parameters_.values, packed_.data(), block, bench.slopes.data(), gradient);
        if (!codes_.is_empty()) codes_.keep(bench.slopes.data(), rows, at);
    }
}

void Learner::learn(const std::int64_t* columns, int count, const LossWeights& weights) {
    const int size = cutting_.slice_columns, slices = (count + size - 1) / size;
    const int parts = crew_.size() == 1 ? 1 : static_cast<int>(parts_.size());  // alone, what is read is gathered once
    const int tasks = parts * slices, helpers = std::min(tasks, crew_.size());
    const std::function<void(int)> share = [&](int worker) {
        if (worker >= helpers) return;
        for (int task = tasks * worker / helpers; task < tasks * (worker + 1) / helpers; ++task) {
            const int slice = task % slices, begun = slice * size;
            learn_slice(parts == 1 ? whole_ : parts_[task / slices], columns + begun, begun, std::min(size, count - begun),
                        weights, benches_[worker], gradients_.data() + slice * whole_.plan.slopes_size,
                        slices_told_[task].sums);
        }
    };
    slices_told_.assign(tasks, Told{});
    helpers == 1 ? share(0) : crew_.run(share);
}

void Learner::each_part(const std::function<void(std::size_t)>& work) {
    if (parts_.size() > 1 && crew_.size() > 1) {
        return crew_.run([&](int worker) {
            if (static_cast<std::size_t>(worker) < parts_.size()) work(worker);
        });
    }
    for (std::size_t number = 0; number < parts_.size(); ++number) work(number);
}

void Learner::gather_slopes(const Part& part, int slices, int minibatch_size) {
    float* flat = parameters_.gradient;
    network_->kernels().spread(part.plan, gradients_.data(), slices, flat);
    if (!codes_.is_empty()) codes_.give_slopes(minibatch_size, crew_, flat);
    if (head_.kind == Head::NORMAL && (part.wanted & FOR_ACTION)) {
        std::memcpy(flat + head_.log_std, gradients_.data() + network_->log_std_slope(), head_.size * sizeof(float));
    }
}

double Learner::squares_of_slopes(const Part& part) const {
    double sum = 0;
    for (const Range& own : part.parameters) {
        sum += network_->kernels().squares(parameters_.gradient + own.begin, own.end - own.begin);
    }
    return sum;
}

double Learner::gradient_norm(int slices, int minibatch_size) {
    const auto square = [&](std::size_t number) { parts_told_[number].squares = squares_of_slopes(parts_[number]); };
    each_part([&](std::size_t number) {
        gather_slopes(parts_[number], slices, minibatch_size);
        if (!reducer_) square(number);  // while they are in this core's cache
    });
    if (reducer_) {
        reducer_->average(parameters_.gradient, parameters_.count);
        each_part(square);
    }
    double sum = 0;
    for (const Told& part : parts_told_) sum += part.squares;
    return std::sqrt(sum);
}

double Learner::step(int slices, int minibatch_size, const UpdateRates& rates) {
    const Kernels& kernels = network_->kernels();
    const double norm = gradient_norm(slices, minibatch_size);
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
    each_part([&](std::size_t number) {
        for (const Range& own : parts_[number].parameters) {
            kernels.adam(adam, own.end - own.begin, parameters_.values + own.begin, parameters_.gradient + own.begin,
                         parameters_.mean + own.begin, parameters_.spread + own.begin);
        }
        kernels.pack(parts_[number].plan, parameters_.values, packed_.data());
    });
    return norm;
}

EpochResult Learner::epoch(const UpdateRates& rates) {
    const int minibatch_size = rates.minibatch_size;
    const int width = minibatch_size / cutting_.stretch, size = cutting_.slice_columns;  // in columns
    const int slices = (width + size - 1) / size;
    if (gradient_slices_ < static_cast<std::size_t>(slices)) {
        gradients_ = Floats(whole_.plan.slopes_size * slices);
        gradient_slices_ = slices;
    }
    codes_.make_room(minibatch_size);
    EpochResult result{0, 0};
    LossWeights weights = rates.loss;
    weights.share = 1.0f / static_cast<float>(minibatch_size);
    normalize(width, rates);
    for (std::size_t first = 0; first + width <= columns(); first += width) {
        scale_ = scales_[first / width];
        learn(order_.data() + first, width, weights);
        const double norm = step(slices, minibatch_size, rates);
        if (!std::isfinite(norm)) return {norm, 0};
        LossSums sums{};
        for (const Told& slice : slices_told_) add(slice.sums, sums);
        add(sums, sums_);
        norm_sum_ += norm;
        minibatches_ += 1;
        samples_learned_ += minibatch_size;
        result = {norm, sums.divergence / minibatch_size};
    }
    if (reducer_ && std::isfinite(rates.target_divergence)) {
        reducer_->sum(&result.divergence, 1);
        result.divergence /= reducer_->world_size();
    }
    return result;
}

double Learner::update(const NumpyBits& bits, const UpdateRates& rates, Reducer* reducer) {
    estimate(rates.gamma, rates.gae_lambda);
    begin_update(reducer);
    EpochResult result{0, 0};
    for (int number = 0; number < rates.epochs; ++number) {
        permute(bits, order_);
        result = epoch(rates);
        if (!std::isfinite(result.norm) || result.divergence > rates.target_divergence) break;
    }
    return result.norm;
}

}  // namespace engine
