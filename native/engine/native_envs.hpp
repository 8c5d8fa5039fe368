// Copies of one environment that are stepped in C++, and a rollout of all of them without Python.
#pragma once

#include <vector>

#include "classic_control.hpp"
#include "learner.hpp"

namespace engine {

struct EnvState {
    double state[MAX_STATE] = {};
    Pcg64 rng;
    double total_reward = 0;  // of the episode so far
    int length = 0;
    int elapsed = 0;  // steps, as the time limit counts
};

struct EpisodeEnd {
    int step, env;
    double total_reward;
    int length;
    bool terminated;
};

class NativeEnvs {
   public:
    NativeEnvs(std::unique_ptr<EnvDynamics> dynamics, int count, int time_limit);

    EnvState& at(int index) { return envs_.at(index); }
    int count() const { return static_cast<int>(envs_.size()); }
    int state_size() const { return dynamics_->state_size(); }
    int observation_size() const { return dynamics_->observation_size(); }
    const EnvDynamics& dynamics() const { return *dynamics_; }

    // Fills the learner's rollout buffer from row 0 on, values included. Returns the ended episodes in the order of
    // steps, then of environments.
    std::vector<EpisodeEnd> collect(Learner& learner);

    // Steps one environment; returns whether its episode ended. Then `ended` is set (except the step),
    // `final_observation` [observation_size] is its last observation, and `observation` is the first of the next
    // episode.
    bool step_env(int env, const Action& action, float* observation, float* reward, EpisodeEnd& ended,
                  float* final_observation);

   private:
    struct Shard {
        std::vector<EpisodeEnd> ended;
        std::vector<Truncation> truncations;
    };
    void collect_shard(Learner& learner, int worker, int first, int last, Shard& shard);
    void step(Learner& learner, int step, int env, Shard& shard);

    const std::unique_ptr<EnvDynamics> dynamics_;
    const int time_limit_;
    std::vector<EnvState> envs_;
};

}  // namespace engine
