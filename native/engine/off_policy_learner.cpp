#include "off_policy_learner.hpp"

#include <algorithm>
#include <chrono>

namespace engine {

namespace {

constexpr int SPIN_MICROSECONDS = 500;  // longer than the part of an update that one thread does

}  // namespace

OffPolicyLearner::OffPolicyLearner(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space,
                                   int input_stride)
    : config_(config),
      sampler_(std::move(sampler)),
      space_(std::move(space)),
      input_stride_(input_stride),
      pool_(config.threads),
      batch_(config.batch_size, input_stride, sampler_.arrays()),
      act_inputs_(static_cast<std::size_t>(ROWS) * input_stride),
      scaled_(space_.middle.size()) {}

float* OffPolicyLearner::continuous_action(int env) {
    const ReplayArrays& arrays = sampler_.arrays();
    const std::size_t row = sampler_.position().position;
    return arrays.actions.continuous + (row * arrays.env_count + env) * arrays.parts;
}

std::int64_t* OffPolicyLearner::discrete_action(int env) {
    const ReplayArrays& arrays = sampler_.arrays();
    const std::size_t row = sampler_.position().position;
    return arrays.actions.discrete + (row * arrays.env_count + env) * arrays.parts;
}

void OffPolicyLearner::act(std::int64_t number, bool is_random, double exploration) {
    if (is_random) return act_randomly(CounterRng(config_.seeds.exploration, number));
    const int envs = sampler_.arrays().env_count;
    for (int first = 0; first < envs; first += ROWS) {
        const int last = std::min(envs, first + ROWS);
        sampler_.read_row(sampler_.position().position, first, last, act_inputs_.data(), input_stride_);
        act_rows(act_inputs_.data(), first, last, number, exploration);
    }
}

void OffPolicyLearner::act_randomly(const CounterRng& rng) {
    const ReplayArrays& arrays = sampler_.arrays();
    const int count = arrays.env_count * arrays.parts;
    if (arrays.actions.continuous) {
        float* actions = continuous_action(0);
        for (int k = 0; k < count; ++k) actions[k] = 2 * rng.uniform(k) - 1;
    } else {
        std::int64_t* actions = discrete_action(0);
        for (int k = 0; k < count; ++k) actions[k] = rng.below(k, space_.choices);
    }
}

void OffPolicyLearner::draw(const Update& update) {
    sampler_.draw(CounterRng(config_.seeds.replay, update.number), config_.batch_size, batch_);
}

bool OffPolicyLearner::make_update(const Update& now) {
    const auto began = std::chrono::steady_clock::now();
    draw(now);
    sampler_.prefetch(batch_, config_.batch_size);
    sampler_.gather(0, config_.batch_size, batch_);
    last_norm_ = update(now);
    updates_ += 1;
    learning_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::isfinite(last_norm_);
}

int OffPolicyLearner::learn(int count, std::int64_t first, const UpdateRates& rates, Reducer* reducer) {
    pool_.set_spin_time(SPIN_MICROSECONDS);
    int made = 0;
    while (made < count && make_update({first + made, rates, reducer})) ++made;
    pool_.set_spin_time(0);  // other code that steps environments may need the cores
    return made;
}

int OffPolicyLearner::run(NativeEnvs& envs, const StepSchedule& steps, std::int64_t first_update, Reducer* reducer,
                          std::vector<EpisodeEnd>& ended) {
    pool_.set_spin_time(SPIN_MICROSECONDS);
    int made = 0;
    bool is_finite = true;
    for (int step = 0; step < steps.count && is_finite; ++step) {
        act(steps.first + step, steps.is_random[step], steps.exploration[step]);
        step_envs(envs, step, ended);
        const UpdateRates rates = {steps.learning_rates[step], steps.second_rates[step]};
        for (int due = steps.updates_due[step]; due > 0 && is_finite; --due) {
            is_finite = make_update({first_update + made, rates, reducer});
            made += is_finite;
        }
        for (int due = steps.targets_due[step]; due > 0 && is_finite; --due) update_targets();
    }
    pool_.set_spin_time(0);
    return made;
}

void OffPolicyLearner::step_envs(NativeEnvs& envs, int step, std::vector<EpisodeEnd>& ended) {
    const ReplayArrays& arrays = sampler_.arrays();
    const int row = sampler_.position().position, size = envs.observation_size();
    const std::size_t first = static_cast<std::size_t>(row) * arrays.env_count;
    float* next = static_cast<float*>(const_cast<void*>(arrays.observations)) +
                  static_cast<std::size_t>(sampler_.next_row(row)) * arrays.env_count * size;
    float final_observation[MAX_OBSERVATION];
    EpisodeEnd end;
    sampler_.begin_row();
    for (int env = 0; env < arrays.env_count; ++env) {
        Action action{};
        if (arrays.actions.continuous) {
            const float* unit = continuous_action(env);
            for (std::size_t k = 0; k < scaled_.size(); ++k) {
                scaled_[k] = space_.middle[k] + space_.half_width[k] * unit[k];
            }
            action.continuous = scaled_.data();
        } else {
            action.discrete = *discrete_action(env);
        }
        if (!envs.step_env(env, action, next + env * size, arrays.rewards + first + env, end, final_observation)) {
            continue;
        }
        end.step = step;
        ended.push_back(end);
        arrays.ends[first + env] = end.terminated ? TERMINATED : TRUNCATED;
        if (!end.terminated) std::copy_n(final_observation, size, sampler_.keep_final(env));
    }
    sampler_.end_row();
    row_added(row);
}

void OffPolicyLearner::add_figures(const Figures& sums) {
    for (int k = 0; k < MAX_FIGURES; ++k) figures_[k] += sums[k];
}

std::vector<NamedFigure> OffPolicyLearner::take_figures() {
    std::vector<NamedFigure> named = named_figures();
    figures_ = {};
    updates_ = actor_updates_ = 0;
    learning_seconds_ = 0;
    return named;
}

}  // namespace engine
