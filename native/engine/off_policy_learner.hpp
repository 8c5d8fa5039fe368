// What DQN, SAC and TD3 share in the native engine: acting, updates on batches from the replay buffer, and whole
// iterations of environments that the engine steps itself.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "native_envs.hpp"
#include "replay_sampler.hpp"
#include "trained_network.hpp"

namespace engine {

// Streams of random numbers (algorithms/counter_rng.py); each learner draws from those that it needs.
struct Seeds {
    std::uint64_t exploration, epsilon, replay, noise, target_noise;
};

struct OffPolicyConfig {
    int batch_size, threads;
    Seeds seeds;
};

// What schedules say of an update.
struct UpdateRates {
    double learning_rate;
    double second_rate;  // SAC: the critics' learning rate; DQN: beta of the importance weights
};

// The steps of an iteration, each of all environments; arrays belong to NumPy.
struct StepSchedule {
    int count;
    std::int64_t first;                 // number of such steps before
    const bool* is_random;      // [count] actions are drawn uniformly: before learning starts
    const double* exploration;          // [count] DQN: share of random actions
    const std::int32_t* updates_due;    // [count] updates after each step
    const std::int32_t* targets_due;  // [count] DQN: updates of the target after these
    const double *learning_rates, *second_rates;  // [count] of the updates after each step
};

// Sums over samples or updates; the algorithm names them.
constexpr int MAX_FIGURES = 12;
using Figures = std::array<double, MAX_FIGURES>;

// A sum over updates.
struct NamedFigure {
    std::string name;
    double sum;
    long updates;
};

// The buffer and the networks have continuous actions scaled to [-1, 1].
struct ActionSpace {
    int choices;                            // 0: continuous actions
    std::vector<float> half_width, middle;  // [parts] of the bounds; empty for discrete actions

    int parts() const { return choices ? 1 : static_cast<int>(middle.size()); }
};

class OffPolicyLearner {
   public:
    OffPolicyLearner(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space, int input_stride);
    virtual ~OffPolicyLearner() = default;

    ReplaySampler& sampler() { return sampler_; }
    int input_stride() const { return input_stride_; }
    // After Python may have changed parameters: before acting and updates.
    virtual void pack() = 0;
    // Writes the actions of step `number` for the current row into it, scaled to [-1, 1] if they are continuous.
    void act(std::int64_t number, bool is_random, double exploration);
    // Makes `count` updates after `first` others, and returns how many: fewer, if a gradient is not finite.
    int learn(int count, std::int64_t first, const UpdateRates& rates, Reducer* reducer);
    // A whole iteration in environments of the engine. `ended`: episodes, in the order of steps. Returns the number of
    // updates that were made.
    int run(NativeEnvs& envs, const StepSchedule& steps, std::int64_t first_update, Reducer* reducer,
            std::vector<EpisodeEnd>& ended);
    // By steps, where the algorithm counts them so.
    virtual void update_targets() {}
    // Sums over the updates since the last call.
    std::vector<NamedFigure> take_figures();
    // Of the last update; not finite, if that stopped `learn`.
    double last_norm() const { return last_norm_; }
    // That updates took since figures were taken.
    double learning_seconds() const { return learning_seconds_; }
    virtual const Kernels& kernels() const = 0;
    palaestra::ThreadPool& pool() { return pool_; }

   protected:
    struct Update {
        std::int64_t number;
        UpdateRates rates;
        Reducer* reducer;
    };

    // The actions of step `number` for environments [first, last) of the current row, whose inputs are given.
    virtual void act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) = 0;
    // One gradient step on `batch_`, which is drawn; the norm of its gradient, or one that is not finite.
    virtual double update(const Update& update) = 0;
    // What `figures_` are.
    virtual std::vector<NamedFigure> named_figures() const = 0;
    virtual void draw(const Update& update);
    // A row of the replay buffer is complete, which is not the current one any more.
    virtual void row_added(int row) { static_cast<void>(row); }

    int batch_size() const { return config_.batch_size; }
    int slices() const { return (config_.batch_size + BATCH_SLICE - 1) / BATCH_SLICE; }
    // `work(slice, first, last, worker)` for all slices of the batch, on all threads; the sum of what they wrote to
    // `slice_figures_`, in the order of slices.
    template <typename Work>
    Figures for_each_slice(const Work& work);
    void add_figures(const Figures& sums);
    void act_randomly(const CounterRng& rng);
    // [parts] of an environment in the current row.
    float* continuous_action(int env);
    std::int64_t* discrete_action(int env);

    const OffPolicyConfig config_;
    ReplaySampler sampler_;
    const ActionSpace space_;
    const int input_stride_;
    palaestra::ThreadPool pool_;
    TransitionBatch batch_;
    Figures figures_{};
    long updates_ = 0, actor_updates_ = 0;  // since figures were taken
    std::vector<Figures> slice_figures_;

   private:
    bool make_update(const Update& update);
    void step_envs(NativeEnvs& envs, int step, std::vector<EpisodeEnd>& ended);

    FloatArray act_inputs_;       // [B, input_stride]
    std::vector<float> scaled_;   // [parts] an action in the environment's units
    double last_norm_ = 0, learning_seconds_ = 0;
};

template <typename Work>
Figures OffPolicyLearner::for_each_slice(const Work& work) {
    const int count = slices(), threads = std::min(count, pool_.size());
    slice_figures_.assign(count, Figures{});
    const auto slice_work = [&](int slice, int worker) {
        work(slice, slice * BATCH_SLICE, std::min((slice + 1) * BATCH_SLICE, batch_size()), worker);
    };
    if (threads == 1) {
        for (int slice = 0; slice < count; ++slice) slice_work(slice, 0);
    } else {
        pool_.run([&](int worker) {
            if (worker >= threads) return;
            for (int slice = count * worker / threads; slice < count * (worker + 1) / threads; ++slice) {
                slice_work(slice, worker);
            }
        });
    }
    Figures sums{};
    for (const Figures& part : slice_figures_) {
        for (int k = 0; k < MAX_FIGURES; ++k) sums[k] += part[k];
    }
    return sums;
}

}  // namespace engine
