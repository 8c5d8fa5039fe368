// Networks that give the value of every action: DQN's and PQN's.
#pragma once

#include "random.hpp"
#include "trained_network.hpp"

namespace engine {

// An environment takes a random action with probability epsilon.
struct EpsilonGreedy {
    const CounterRng& decisions;
    const CounterRng& choices;
    float epsilon;
};

// Action values from a network's outputs; a dueling network has a value beside the advantages.
class ActionValues {
   public:
    explicit ActionValues(const Network& network)
        : action_slot_(network.action_slot), value_slot_(network.value_slot), count_(network.size(action_slot_)) {}
    int count() const { return count_; }
    // Of one row of the last forward pass.
    float value(const Pass& pass, int row, int action) const;
    int greedy(const Pass& pass, int row) const;
    // Of all rows [rows]: the value of the greedy action.
    void read_largest(const Pass& pass, int rows, float* values) const;
    // Actions of the environments [first, last): random ones, or the greedy ones of `inputs` [rows, stride].
    void choose(const EpsilonGreedy& exploration, int first, int last, std::int64_t* actions, Pass& pass,
                const Weights& weights, const float* inputs) const;
    // Writes d loss / d outputs of a row, where only one action's value has one.
    void write_grad(Pass& pass, int row, int action, float grad) const;

   private:
    // What is added to all outputs of a row.
    float shift(const Pass& pass, int row) const;

    const int action_slot_, value_slot_, count_;
};

}  // namespace engine
