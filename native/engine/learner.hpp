// Inference, advantages and updates of one network over one recording.
#pragma once

#include <memory>

#include "../arena/crew.hpp"
#include "code_pages.hpp"
#include "floats.hpp"
#include "memories.hpp"
#include "network.hpp"
#include "numpy_bits.hpp"
#include "recording.hpp"
#include "reducer.hpp"

namespace engine {

// The optimiser's memory, which belongs to torch.
struct Parameters {
    std::size_t count;
    float *values, *gradient, *mean, *spread;  // [count]
    float* step_count;                         // one number
};

struct UpdateRates {
    float gamma, gae_lambda;
    int epochs, minibatch_size;
    double target_divergence;  // an epoch that ends beyond it is the last
    LossWeights loss;
    bool normalize_advantages;
    float max_grad_norm, learning_rate, beta1, beta2, epsilon, weight_decay;
};

struct EpochResult {
    double norm;        // of the last gradient, before clipping; not finite: nothing was done with it
    double divergence;  // mean over the last minibatch, of all ranks
};

// What a minibatch learns from: (advantage - mean) * factor.
struct Scale {
    float mean, factor;
};

constexpr std::size_t APART = 128;  // bytes: processors fetch pairs of lines

// What is told of one piece of work, by whoever did it.
struct alignas(APART) Told {
    LossSums sums;
    double squares;
};

// How a minibatch is cut up. A column is what is learned from as a whole: one sample, or a stretch of steps of one
// environment where there is memory. Column s * B + b is stretch s of environment b.
struct Cutting {
    Cutting(bool has_memory, int stretch);
    const int stretch;        // steps of a column
    const int slice_columns;  // whose gradient is one sum
    const int block_columns;  // that go through the network together

    int rows() const;  // what a block must hold
};

// What one thread works in; no other one's lines of the cache.
struct alignas(APART) Bench {
    Bench(const Plan& plan, const Cutting& cutting, const HeadPlan& head_plan);
    HeadBench head;
    Floats values, before, slopes;
    Floats input;  // [rows, stride of slot 0]
    Floats states;  // [columns, state_size]
    std::vector<std::size_t> samples;  // [rows]: where they are in the recording
    std::unique_ptr<bool[]> starts;    // [rows]
    Floats old_log_probs, old_values, old_advantages, old_returns;  // [ROWS]
};

class Learner {
   public:
    Learner(std::unique_ptr<Network> network, HeadPlan head, Reader reader, Parameters parameters, Recording recording,
            int stretch, int threads);

    // What the network remembers between recordings; to be set before the first action and read behind the last.
    Memories& memories() { return memories_; }
    // Before the first action with these parameters; the seed is that of the run's dice.
    void begin(std::uint64_t seed, std::uint64_t iteration);
    // Reads row `step` of the observations, for environments from `first` to before `last`.
    void read(int step, int first, int last);
    // Draws actions for them; `bench` is the caller's.
    void act(int step, int first, int last, int bench);
    // All environments, shared among threads.
    void act_all(int step);
    // Values of the whole recording and of what truly followed each step.
    void judge(const std::vector<Cut>& cuts);
    // All epochs, in orders that are drawn from `bits`. The norm of the last gradient, before clipping; where it is not
    // finite, nothing was done with that gradient.
    // `reducer`: of the ranks that learn together, or null; gradients, the statistics of advantages and the divergence
    // are then those of all ranks.
    double update(const NumpyBits& bits, const UpdateRates& rates, Reducer* reducer = nullptr);
    int stretch() const { return cutting_.stretch; }
    std::size_t columns() const { return recording_.samples() / cutting_.stretch; }

    // Of the update so far.
    const LossSums& sums() const { return sums_; }
    double norm_sum() const { return norm_sum_; }
    long minibatches() const { return minibatches_; }
    long samples_learned() const { return samples_learned_; }

    const Reader& reader() const { return reader_; }
    const CodePages& codes() const { return codes_; }
    const Recording& recording() const { return recording_; }
    int action_parts() const { return head_.parts(); }
    int input_stride() const { return network_->stride(0); }
    arena::Crew& crew() { return crew_; }
    const char* kernels_name() const { return network_->kernels().name; }

   private:
    void forward(const Block& block, int wanted) const;
    const float* log_std() const;
    std::size_t sample_of(std::int64_t column, int step) const;
    // Advantages and returns.
    void estimate(float gamma, float gae_lambda);
    void begin_update(Reducer* reducer);
    // In the order that was drawn; minibatches are whole columns.
    EpochResult epoch(const UpdateRates& rates);
    // Of every minibatch of `width` columns in the order that was drawn.
    void normalize(int width, const UpdateRates& rates);
    // `part_of(advantage)` over all samples of the columns.
    template <typename Term>
    double sum_of_advantages(const std::int64_t* columns, int count, const Term& part_of) const;
    void gather(const std::int64_t* columns, int count, Bench& bench) const;
    // Every slice of the minibatch, shared among threads.
    void learn(const std::int64_t* columns, int count, const LossWeights& weights);
    // `first`: number of its first column in the minibatch.
    void learn_slice(const Part& part, const std::int64_t* columns, int first, int count, const LossWeights& weights,
                     Bench& bench, float* gradient, LossSums& sums);
    // Of at most ROWS rows of the bench.
    OldRows recall(int first, int rows, Bench& bench) const;
    void loss_of(int wanted, int first, int rows, const LossWeights& weights, Bench& bench, float* gradient,
                 LossSums& sums) const;
    // `work(first, last, worker)` for all of `rows`, in whole blocks of ROWS; what a thread gets changes no bit of a row.
    void share(std::size_t rows, const std::function<void(std::size_t, std::size_t, int)>& work);
    void judge_rows(std::size_t first, std::size_t last, Bench& bench, float* last_values);
    void judge_all(float* last_values);
    void judge_last(float* last_values);
    float judge_cut(const Cut& cut);
    // `work(number)` of each part; a part is always the same thread's, as far as possible: it has it in its cache.
    void each_part(const std::function<void(std::size_t)>& work);
    // The slopes in the parameters' order.
    void gather_slopes(const Part& part, int slices, int minibatch_size);
    double squares_of_slopes(const Part& part) const;
    // Of the gradient over all ranks.
    double gradient_norm(int slices, int minibatch_size);
    double step(int slices, int minibatch_size, const UpdateRates& rates);

    const std::unique_ptr<Network> network_;
    const HeadPlan head_;
    const Reader reader_;
    const Parameters parameters_;
    const Recording recording_;
    const Cutting cutting_;
    const Part whole_;
    const std::vector<Part> parts_;  // of which the whole is made
    Memories memories_;
    CodePages codes_;
    arena::Crew crew_;
    Dice dice_;
    std::vector<Bench> benches_;
    std::vector<std::int64_t> order_;  // of columns
    Floats packed_, inputs_, gradients_;
    std::size_t gradient_slices_ = 0;  // for which there is room
    Reducer* reducer_ = nullptr;       // during an update
    std::vector<Scale> scales_;        // of each minibatch
    Scale scale_{0, 1};                // of this one
    LossSums sums_{};
    double norm_sum_ = 0;
    long minibatches_ = 0, samples_learned_ = 0;
    std::vector<Told> slices_told_, parts_told_;
};

}  // namespace engine
