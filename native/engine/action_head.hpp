// Action distributions over a network's outputs: sampling, and the gradient of PPO's loss by the outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "float_array.hpp"
#include "kernels.hpp"
#include "random.hpp"

namespace engine {

constexpr int MAX_PARTS = 64;

struct HeadPlan {
    HeadKind kind;
    std::vector<int> counts;  // [parts] number of classes; Gaussian: 1 per entry
    int size;                 // outputs of the network
    std::size_t log_std;      // Gaussian: offset of the parameters [size]

    int parts() const { return static_cast<int>(counts.size()); }  // entries of an action
};

// Actions of a rollout, [samples, parts]; one of the two is null.
struct Actions {
    std::int64_t* discrete;
    float* continuous;
};

// The distributions of at most ROWS samples; each thread has its own.
class ActionHead {
   public:
    explicit ActionHead(const HeadPlan& plan);

    // Before `sample` and `backward`: the network's outputs [rows, stride]; Gaussian: log_std [size].
    void set_outputs(const float* outputs, std::size_t stride, int rows, const float* log_std);
    // Samples actions for the samples from `first` on, and writes their log-probabilities [rows].
    void sample(const Kernels& kernels, const CounterRng& rng, std::size_t first, const Actions& actions,
                float* log_probs);
    // Loads the recorded actions of `samples` [rows], for `backward`.
    void load_actions(const Actions& actions, const std::size_t* samples);
    // Writes d loss / d outputs [rows, stride]; Gaussian: also adds to d loss / d log_std [size].
    void backward(const Kernels& kernels, const OldSamples& old, const LossWeights& weights, float* grads,
                  float* log_std_grads, LossSums& sums);

   private:
    void sample_categorical(const CounterRng& rng, std::size_t first, std::int64_t* actions, float* log_probs) const;
    void sample_gaussian(const CounterRng& rng, std::size_t first, float* actions);

    const HeadPlan& plan_;
    std::vector<int> choices_;  // [parts, ROWS]
    FloatArray inverse_std_;    // [size]
    FloatArray taken_, class_log_probs_, class_probs_, entropies_, log_probs_;
    HeadRows rows_{};
};

}  // namespace engine
