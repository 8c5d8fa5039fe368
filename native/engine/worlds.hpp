// Copies of one environment inside the engine, and a rollout of all of them without Python.
#pragma once

#include <vector>

#include "learner.hpp"
#include "rules.hpp"

namespace engine {

struct World {
    double state[MAX_STATE] = {};
    Pcg64 dice;
    double total_reward = 0;  // of the episode so far
    int length = 0;
    int elapsed = 0;  // as the time limit counts
};

struct Ended {
    int step, env;
    double total_reward;
    int length;
    bool terminated;
};

class Worlds {
   public:
    Worlds(std::unique_ptr<Rules> rules, int count, int limit);

    World& at(int index) { return worlds_.at(index); }
    int count() const { return static_cast<int>(worlds_.size()); }
    int state_size() const { return rules_->state_size(); }
    int observation_size() const { return rules_->observation_size(); }
    const Rules& rules() const { return *rules_; }

    // One recording full, from row 0 on; everything up to the advantages' ingredients is filled in. Episodes that
    // ended come in the order of steps, then of environments.
    std::vector<Ended> play(Learner& learner);

    // One step of one world. Where its episode is over, `ended` says how (but not in which step), `last_seen`
    // [observation_size] is what it ended with, and `seen` is already what the next one begins with.
    bool advance(int env, const Action& action, float* seen, float* reward, Ended& ended, float* last_seen);

   private:
    struct Share {
        std::vector<Ended> ended;
        std::vector<Cut> cuts;
    };
    void play_share(Learner& learner, int worker, int first, int last, Share& share);
    void step(Learner& learner, int step, int env, Share& share);

    const std::unique_ptr<Rules> rules_;
    const int limit_;
    std::vector<World> worlds_;
};

}  // namespace engine
