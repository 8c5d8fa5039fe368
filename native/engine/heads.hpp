// What the network's last numbers mean: a distribution over actions, and PPO's loss with its slopes.
#pragma once

#include <cstdint>
#include <vector>

#include "dice.hpp"
#include "plan.hpp"

namespace engine {

constexpr int MAX_PARTS = 64;

struct HeadPlan {
    Head kind;
    std::vector<int> counts;  // of each choice; for normals only how many there are matters
    int size;                 // numbers that the network gives
    std::size_t log_std;      // [size] among the parameters, for normals

    int parts() const { return static_cast<int>(counts.size()); }  // numbers in an action
};

// Actions of a rollout, [samples, parts]; one of the two is null.
struct Actions {
    std::int64_t* choices;
    float* numbers;
};

struct LossWeights {
    float clip;
    bool clip_value;
    float value, entropy;
};

// One sample of a minibatch, as it was when the policy acted.
struct Before {
    float log_prob, value, advantage, wanted_value;
};

// Sums over samples; the update's statistics are made of them.
struct Terms {
    double objective = 0, squared_error = 0, entropy = 0, log_ratio = 0, divergence = 0;
    long clipped = 0;

    void add(const Terms& other);
};

// Draws an action for one sample from the `numbers` [size] that the network gave; returns its log-probability.
float draw(const HeadPlan& head, const float* numbers, const float* log_std, const Dice& dice, std::uint64_t place,
           const Actions& actions, std::size_t sample);

// d loss / d numbers [size] and, for normals, added to d loss / d log_std [size]; `share` is one over the minibatch.
void action_slopes(const HeadPlan& head, const LossWeights& weights, const float* numbers, const float* log_std,
                   const Actions& actions, std::size_t sample, const Before& before, float share, float* slopes,
                   float* log_std_slopes, Terms& terms);

// d loss / d value
float value_slope(const LossWeights& weights, float value, const Before& before, float share, Terms& terms);

}  // namespace engine
