// PPO for one network and one rollout buffer: inference, advantages and updates.
#pragma once

#include <memory>

#include "collectives.hpp"
#include "table_codes.hpp"

namespace engine {

// Parameters and Adam's state, in arrays that belong to Python.
struct Parameters {
    std::size_t count;
    float *values, *gradient, *exp_avg, *exp_avg_sq;  // [count]
    float* step_count;                                // [1]
};

struct UpdateConfig {
    float gamma, gae_lambda;
    int epochs, minibatch_size;
    double target_kl;  // the update stops after an epoch that exceeds it
    LossWeights loss;
    bool normalize_advantages;
    float max_grad_norm, learning_rate, beta1, beta2, epsilon, weight_decay;
};

struct EpochResult {
    double norm;       // of the last gradient, before clipping; if it is not finite, no step was taken with it
    double approx_kl;  // mean over the last minibatch, over all ranks
};

// Advantages are normalized to (advantage - mean) * factor.
struct AdvantageScale {
    float mean, factor;
};

constexpr std::size_t CACHE_LINE_PAIR = 128;  // bytes; prefetchers load pairs of cache lines

// What a thread adds up for one task.
struct alignas(CACHE_LINE_PAIR) TaskResult {
    LossSums sums;
    double squared_sum;
};

// How a minibatch is split. A column is the unit of a minibatch: one sample, or for recurrent networks a segment of
// consecutive steps of one environment. Column s * B + b is segment s of environment b.
struct MinibatchSplit {
    MinibatchSplit(bool has_memory, int segment_length);
    const int segment_length;  // steps of a column
    const int slice_columns;   // columns whose gradient is one sum
    const int block_columns;   // columns that pass through the network together

    int rows() const;  // rows of a block
};

// The working memory of one thread.
struct alignas(CACHE_LINE_PAIR) Workspace {
    Workspace(const NetworkLayout& layout, const MinibatchSplit& split, const HeadPlan& head_plan);
    ActionHead head;
    FloatArray values, pre_activations, grads;
    FloatArray input;                                                   // [rows, stride of slot 0]
    FloatArray states;                                                  // [columns, state_size]
    std::vector<std::size_t> samples;                                   // [rows] indices into the rollout
    std::unique_ptr<bool[]> starts;                                     // [rows]
    FloatArray old_log_probs, old_values, old_advantages, old_returns;  // [ROWS]
};

class Learner {
   public:
    Learner(std::unique_ptr<Network> network, HeadPlan head, ObservationReader reader, Parameters parameters,
            RolloutBuffer buffer, int segment_length, int threads);

    // The recurrent state: set it before the first step of a rollout, read it after the last.
    RecurrentState& recurrent_state() { return recurrent_state_; }
    // Call before the first step of a rollout, after the parameters changed; `seed` is the run's action seed.
    void begin_rollout(std::uint64_t seed, std::uint64_t iteration);
    // Converts row `step` of the observations of environments [first, last).
    void read_observations(int step, int first, int last);
    // Samples actions for them. `workspace`: number of the calling thread.
    void act(int step, int first, int last, int workspace);
    // The same for all environments, with all threads.
    void act_all(int step);
    // Computes the values of the whole rollout, and of the state after each step.
    void evaluate_values(const std::vector<Truncation>& truncations);
    // Runs all epochs, in minibatch orders drawn from `generator`, and returns the norm of the last gradient before
    // clipping; if it is not finite, no step was taken with it. `reducer`: of the ranks that train together, or null;
    // gradients, advantage statistics and approx_kl are then those of all ranks.
    double update(const NumpyBitGenerator& generator, const UpdateConfig& config, Reducer* reducer = nullptr);
    int segment_length() const { return split_.segment_length; }
    std::size_t columns() const { return buffer_.samples() / split_.segment_length; }

    // Statistics of the last update.
    const LossSums& sums() const { return sums_; }
    double norm_sum() const { return norm_sum_; }
    long minibatches() const { return minibatches_; }
    long samples_learned() const { return samples_learned_; }

    const ObservationReader& reader() const { return reader_; }
    const TableCodes& codes() const { return codes_; }
    const RolloutBuffer& buffer() const { return buffer_; }
    int action_parts() const { return head_.parts(); }
    int input_stride() const { return network_->stride(0); }
    palaestra::ThreadPool& pool() { return pool_; }
    const char* kernels_name() const { return network_->kernels().name; }

   private:
    // ---- learner_rollout.cpp
    void forward(const Block& block, int output_mask) const;
    const float* log_std() const;
    // `work(first, last, worker)` over all `rows` in whole blocks of ROWS; the split does not change any result.
    void parallel_rows(std::size_t rows, const std::function<void(std::size_t, std::size_t, int)>& work);
    void evaluate_rows(std::size_t first, std::size_t last, Workspace& workspace, float* last_values);
    void evaluate_all(float* last_values);
    void evaluate_last(float* last_values);
    float evaluate_truncation(const Truncation& truncation);
    void estimate_advantages(float gamma, float gae_lambda);

    // ---- learner_update.cpp
    void begin_update(Reducer* reducer);
    EpochResult run_epoch(const UpdateConfig& config);
    std::size_t sample_of(std::int64_t column, int step) const;
    // Computes the advantage scales of all minibatches of `width` columns.
    void normalize(int width, const UpdateConfig& config);
    // Sum of `term(advantage)` over all samples of the columns.
    template <typename Term>
    double sum_of_advantages(const std::int64_t* columns, int count, const Term& term) const;
    void gather(const std::int64_t* columns, int count, Workspace& workspace) const;
    // Gathers what was recorded for at most ROWS rows of the workspace.
    OldSamples gather_old(int first, int rows, Workspace& workspace) const;
    void compute_loss(int output_mask, int first, int rows, const LossWeights& weights, Workspace& workspace,
                      float* gradient, LossSums& sums) const;
    // Gradient blocks of all slices of the minibatch, with all threads.
    void compute_gradients(const std::int64_t* columns, int count, const LossWeights& weights);
    // `first_column`: position of the slice in the minibatch.
    void compute_slice_gradient(const Part& part, const std::int64_t* columns, int first_column, int count,
                                const LossWeights& weights, Workspace& workspace, float* gradient, LossSums& sums);
    // `work(number)` of each part of the network; a part stays with the same thread, which has it in its cache.
    void for_each_part(const std::function<void(std::size_t)>& work);
    // Sums the slices into the flat gradient.
    void gather_gradients(const Part& part, int slices, int minibatch_size);
    double squared_norm(const Part& part) const;
    // Norm of the gradient over all ranks.
    double gradient_norm(int slices, int minibatch_size);
    double optimizer_step(int slices, int minibatch_size, const UpdateConfig& config);

    const std::unique_ptr<Network> network_;
    const HeadPlan head_;
    const ObservationReader reader_;
    const Parameters parameters_;
    const RolloutBuffer buffer_;
    const MinibatchSplit split_;
    const Part whole_;
    const std::vector<Part> parts_;  // that make up the whole network
    RecurrentState recurrent_state_;
    TableCodes codes_;
    palaestra::ThreadPool pool_;
    CounterRng rng_;
    std::vector<Workspace> workspaces_;
    std::vector<std::int64_t> order_;  // of columns
    FloatArray packed_, inputs_, gradients_;
    std::size_t gradient_slices_ = 0;     // gradient blocks that fit into `gradients_`
    Reducer* reducer_ = nullptr;          // during an update
    std::vector<AdvantageScale> scales_;  // of each minibatch
    AdvantageScale scale_{0, 1};          // of the current one
    LossSums sums_{};
    double norm_sum_ = 0;
    long minibatches_ = 0, samples_learned_ = 0;
    std::vector<TaskResult> slice_results_, part_results_;
};

}  // namespace engine
