#include "native_envs.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>

namespace engine {

namespace {

constexpr int MIN_ENVS_PER_THREAD = 16;  // with fewer, threads would write to the same cache lines of the buffer

}  // namespace

NativeEnvs::NativeEnvs(std::unique_ptr<EnvDynamics> dynamics, int count, int time_limit)
    : dynamics_(std::move(dynamics)), time_limit_(time_limit) {
    if (count < 1 || time_limit < 1) {
        throw std::invalid_argument("count=" + std::to_string(count) + " and time_limit=" + std::to_string(time_limit) +
                                    " must be at least 1");
    }
    envs_.resize(count);
}

bool NativeEnvs::step_env(int env, const Action& action, float* observation, float* reward, EpisodeEnd& ended,
                          float* final_observation) {
    EnvState& state = envs_[env];
    const StepResult result = dynamics_->step(state.state, action);
    *reward = static_cast<float>(result.reward);
    state.total_reward += result.reward;
    state.length += 1;
    state.elapsed += 1;
    const bool has_ended = result.terminated || state.elapsed >= time_limit_;
    dynamics_->observe(state.state, has_ended ? final_observation : observation);
    if (!has_ended) return false;
    ended = {0, env, state.total_reward, state.length, result.terminated};
    state.total_reward = 0;
    state.length = state.elapsed = 0;
    dynamics_->reset(state.state, state.rng);
    dynamics_->observe(state.state, observation);
    return true;
}

void NativeEnvs::step(Learner& learner, int step, int env, Shard& shard) {
    const RolloutBuffer& buffer = learner.buffer();
    const std::size_t envs = buffer.env_count, sample = step * envs + env, size = dynamics_->observation_size();
    float* observation = static_cast<float*>(const_cast<void*>(buffer.observations)) + (sample + envs) * size;
    const Actions& actions = buffer.actions;
    const Action action = {actions.discrete ? actions.discrete[sample] : 0,
                           actions.continuous ? actions.continuous + sample * learner.action_parts() : nullptr};
    EpisodeEnd ended;
    float final_observation[MAX_OBSERVATION];
    const bool has_ended = step_env(env, action, observation, buffer.rewards + sample, ended, final_observation);
    buffer.terminated[sample] = has_ended && ended.terminated;
    buffer.starts[sample + envs] = has_ended;
    if (!has_ended) return;
    ended.step = step;
    shard.ended.push_back(ended);
    if (ended.terminated) return;
    shard.truncations.push_back({step, env, std::vector<float>(learner.input_stride()), {}});
    learner.reader().read(final_observation, 0, shard.truncations.back().observation.data());
}

void NativeEnvs::collect_shard(Learner& learner, int worker, int first, int last, Shard& shard) {
    const int horizon = learner.buffer().horizon;
    for (int step_number = 0; step_number < horizon; ++step_number) {
        learner.read_observations(step_number, first, last);
        learner.act(step_number, first, last, worker);
        for (int env = first; env < last; ++env) step(learner, step_number, env, shard);
    }
    learner.read_observations(horizon, first, last);
}

std::vector<EpisodeEnd> NativeEnvs::collect(Learner& learner) {
    const int size = std::clamp(count() / MIN_ENVS_PER_THREAD, 1, learner.pool().size());
    std::vector<Shard> shards(size);
    const std::function<void(int)> collect_share = [&](int worker) {
        const int first = count() * worker / size, last = count() * (worker + 1) / size;
        if (worker < size) collect_shard(learner, worker, first, last, shards[worker]);
    };
    size == 1 ? collect_share(0) : learner.pool().run(collect_share);
    std::vector<EpisodeEnd> ended;
    std::vector<Truncation> truncations;
    for (Shard& shard : shards) {
        ended.insert(ended.end(), shard.ended.begin(), shard.ended.end());
        std::move(shard.truncations.begin(), shard.truncations.end(), std::back_inserter(truncations));
    }
    std::sort(ended.begin(), ended.end(), [](const EpisodeEnd& one, const EpisodeEnd& other) {
        return std::tie(one.step, one.env) < std::tie(other.step, other.env);
    });
    learner.evaluate_values(truncations);
    return ended;
}

}  // namespace engine
