#include "worlds.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <tuple>

namespace engine {

namespace {

constexpr int LEAST_ENVS = 16;  // of a thread: fewer would share lines of the recording with another thread's, step by step

}  // namespace

Worlds::Worlds(std::unique_ptr<Rules> rules, int count, int limit) : rules_(std::move(rules)), limit_(limit) {
    if (count < 1 || limit < 1) throw std::invalid_argument("worlds and steps are counted from 1");
    worlds_.resize(count);
}

bool Worlds::advance(int env, const Action& action, float* seen, float* reward, Ended& ended, float* last_seen) {
    World& world = worlds_[env];
    const Outcome outcome = rules_->step(world.state, action);
    *reward = static_cast<float>(outcome.reward);
    world.total_reward += outcome.reward;
    world.length += 1;
    world.elapsed += 1;
    const bool is_over = outcome.terminated || world.elapsed >= limit_;
    rules_->observe(world.state, is_over ? last_seen : seen);
    if (!is_over) return false;
    ended = {0, env, world.total_reward, world.length, outcome.terminated};
    world.total_reward = 0;
    world.length = world.elapsed = 0;
    rules_->begin(world.state, world.dice);
    rules_->observe(world.state, seen);
    return true;
}

void Worlds::step(Learner& learner, int step, int env, Share& share) {
    const Recording& tape = learner.recording();
    const std::size_t envs = tape.env_count, sample = step * envs + env, size = rules_->observation_size();
    float* seen = static_cast<float*>(const_cast<void*>(tape.observations)) + (sample + envs) * size;
    const Action action = {tape.actions.choices ? tape.actions.choices[sample] : 0,
                           tape.actions.numbers ? tape.actions.numbers + sample * learner.action_parts() : nullptr};
    Ended ended;
    float last_seen[MAX_OBSERVATION];
    const bool is_over = advance(env, action, seen, tape.rewards + sample, ended, last_seen);
    tape.terminated[sample] = is_over && ended.terminated;
    tape.starts[sample + envs] = is_over;
    if (!is_over) return;
    ended.step = step;
    share.ended.push_back(ended);
    if (ended.terminated) return;
    share.cuts.push_back({step, env, std::vector<float>(learner.input_stride()), {}});
    learner.reader().read(last_seen, 0, share.cuts.back().observation.data());
}

void Worlds::play_share(Learner& learner, int worker, int first, int last, Share& share) {
    const int horizon = learner.recording().horizon;
    for (int now = 0; now < horizon; ++now) {
        learner.read(now, first, last);
        learner.act(now, first, last, worker);
        for (int env = first; env < last; ++env) step(learner, now, env, share);
    }
    learner.read(horizon, first, last);
}

std::vector<Ended> Worlds::play(Learner& learner) {
    const int size = std::clamp(count() / LEAST_ENVS, 1, learner.crew().size());
    std::vector<Share> shares(size);
    const std::function<void(int)> play_some = [&](int worker) {
        const int first = count() * worker / size, last = count() * (worker + 1) / size;
        if (worker < size) play_share(learner, worker, first, last, shares[worker]);
    };
    size == 1 ? play_some(0) : learner.crew().run(play_some);
    std::vector<Ended> ended;
    std::vector<Cut> cuts;
    for (Share& share : shares) {
        ended.insert(ended.end(), share.ended.begin(), share.ended.end());
        std::move(share.cuts.begin(), share.cuts.end(), std::back_inserter(cuts));
    }
    std::sort(ended.begin(), ended.end(), [](const Ended& one, const Ended& other) {
        return std::tie(one.step, one.env) < std::tie(other.step, other.env);
    });
    learner.judge(cuts);
    return ended;
}

}  // namespace engine
