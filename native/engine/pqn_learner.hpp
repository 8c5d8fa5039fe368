// PQN: rollouts, lambda-returns and epochs of minibatches (algorithms/pqn in Python is the reference).
#pragma once

#include <vector>

#include "action_values.hpp"
#include "native_envs.hpp"

namespace engine {

struct PqnConfig {
    float gamma, q_lambda;
    int epochs, minibatch_size, threads;
    std::uint64_t exploration_seed, epsilon_seed, order_seed;
};

// Sums over minibatches.
struct PqnSums {
    double loss, value, norm;
    long minibatches;
};

class PqnLearner {
   public:
    // `buffer`: its values and log_probs are not used.
    PqnLearner(const PqnConfig& config, std::unique_ptr<Network> network, ObservationReader reader,
               Parameters parameters, const AdamConfig& adam, RolloutBuffer buffer);

    const RolloutBuffer& buffer() const { return buffer_; }
    const ObservationReader& reader() const { return reader_; }
    const Kernels& kernels() const { return network_->kernels(); }
    int input_stride() const { return network_->stride(0); }
    // After Python may have changed the parameters.
    void pack() { online_.pack(); }
    // Converts row `step` of the observations.
    void read_observations(int step);
    // Chooses the actions of that row; `number`: steps of these environments before.
    void act(int step, std::int64_t number, double epsilon);
    // Fills the buffer in environments of the engine; `epsilons` [T] of the steps. Returns included.
    std::vector<EpisodeEnd> collect(NativeEnvs& envs, std::int64_t first_number, const double* epsilons);
    // The lambda-returns of a whole rollout.
    void estimate_returns(const std::vector<Truncation>& truncations);
    // All epochs of this iteration; the norm of the last gradient: if it is not finite, no step was taken with it.
    double update(std::int64_t iteration, double learning_rate, Reducer* reducer);
    const PqnSums& sums() const { return sums_; }

   private:
    struct SliceSums {
        double loss, value;
    };

    float* input(std::size_t sample) { return inputs_.data() + sample * input_stride(); }
    float largest_value(const float* input);
    void write_largest_values(std::size_t first, std::size_t last, float* out);
    void shuffle(std::int64_t epoch_number);
    void learn_rows(const std::int64_t* samples, int rows, Pass& pass, float* gradient, SliceSums& sums) const;
    double learn_minibatch(const std::int64_t* samples, double learning_rate, Reducer* reducer);

    const PqnConfig config_;
    const std::unique_ptr<Network> network_;
    const ActionValues values_;
    const ObservationReader reader_;
    const RolloutBuffer buffer_;
    TrainedNetwork online_;
    palaestra::ThreadPool pool_;
    std::vector<Pass> passes_;  // of each thread
    FloatArray inputs_;         // [T + 1, B, input_stride]
    std::vector<std::pair<std::uint64_t, std::int64_t>> keys_;  // [samples]
    std::vector<std::int64_t> order_;                           // [samples]
    std::vector<SliceSums> slice_sums_;
    PqnSums sums_{};
};

}  // namespace engine
