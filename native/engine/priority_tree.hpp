// Priorities of prioritised experience replay, in the sum tree of Python (algorithms/buffers/sum_tree.py).
#pragma once

#include <cstdint>

#include "replay_sampler.hpp"

namespace engine {

struct PriorityConfig {
    double alpha, epsilon;
};

// Node 1 is the root, the children of n are 2n and 2n + 1, and every node is the sum of its children.
class PriorityTree {
   public:
    // `sums`: [2 * leaf_count]. Throws std::invalid_argument, unless the leaves are a power of two of at least `size`.
    PriorityTree(double* sums, std::int64_t leaf_count, std::int64_t size, const PriorityConfig& config);

    double largest = 1;  // so far, raised to alpha: what new steps begin with

    // The steps of a complete row can be drawn, those of the next one, which is written from now on, cannot.
    void add_row(std::int64_t row, std::int64_t next_row, std::int64_t env_count);
    // One index from each of `count` equal parts of the sum, and weights over the largest of the batch.
    void draw(const CounterRng& rng, int count, double beta, TransitionBatch& batch) const;
    void update(const TransitionBatch& batch, const float* td_errors, int count);

   private:
    void set(std::int64_t index, double value);
    std::int64_t find(double mass) const;

    double* sums_;
    const std::int64_t leaf_count_;
    const PriorityConfig config_;
};

}  // namespace engine
