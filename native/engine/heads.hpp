// What the network's last numbers mean: a distribution over actions. PPO's loss of them is the kernels'.
#pragma once

#include <cstdint>
#include <vector>

#include "dice.hpp"
#include "floats.hpp"
#include "kernels.hpp"

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

// A head at work on at most ROWS samples; every thread has its own.
class HeadBench {
   public:
    explicit HeadBench(const HeadPlan& plan);

    // Before `draw` and `judge`: what the network gave, [rows, stride], and the spread, [size], of normals.
    void take(const float* numbers, std::size_t stride, int rows, const float* log_std);
    // Actions for samples from `first` on, and their log-probabilities, [rows].
    void draw(const Kernels& kernels, const Dice& dice, std::size_t first, const Actions& actions, float* log_probs);
    // What was done in the samples [rows], for `judge`.
    void recall(const Actions& actions, const std::size_t* samples);
    // d loss / d numbers [rows, stride], and for normals added to d loss / d log_std [size].
    void judge(const Kernels& kernels, const OldRows& old, const LossWeights& weights, float* slopes,
               float* log_std_slopes, LossSums& sums);

   private:
    void draw_choices(const Dice& dice, std::size_t first, std::int64_t* actions, float* log_probs) const;
    void draw_normals(const Dice& dice, std::size_t first, float* actions);

    const HeadPlan& plan_;
    std::vector<int> choices_;  // [parts, ROWS]
    Floats inverse_std_;        // [size]
    Floats taken_, logs_, shares_, entropies_, log_probs_;
    HeadRows rows_{};
};

}  // namespace engine
