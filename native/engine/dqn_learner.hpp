// DQN: one network of action values and its target (algorithms/dqn in Python is the reference).
#pragma once

#include "off_policy_learner.hpp"
#include "priority_tree.hpp"

namespace engine {

struct DqnConfig {
    bool is_double, is_huber;
    float tau;
    PriorityConfig priorities;
};

// Action values from a network's outputs; a dueling network has a value beside the advantages.
class ActionValues {
   public:
    explicit ActionValues(const Network& network)
        : action_slot_(network.action_slot), value_slot_(network.value_slot), count_(network.size(action_slot_)) {}
    int count() const { return count_; }
    // Of one row of the last forward pass.
    void read(const Pass& pass, int row, float* values) const;
    int greedy(const Pass& pass, int row) const;
    // Writes d loss / d outputs of a row, where only one action's value has one.
    void write_grad(Pass& pass, int row, int action, float grad) const;

   private:
    const int action_slot_, value_slot_, count_;
};

class DqnLearner : public OffPolicyLearner {
   public:
    // `target`: [parameters.count]
    DqnLearner(const OffPolicyConfig& config, const DqnConfig& dqn, ReplaySampler sampler, ActionSpace space,
               std::unique_ptr<Network> network, Parameters parameters, const AdamConfig& adam, float* target,
               std::unique_ptr<PriorityTree> priorities);
    PriorityTree* priorities() { return priorities_.get(); }  // or null
    void pack() override;
    void update_targets() override;
    const Kernels& kernels() const override { return network_->kernels(); }

   private:
    struct Workspace {
        explicit Workspace(const Network& network) : online(network), next(network), target(network), values(network.size(network.action_slot)) {}
        Pass online, next, target;
        std::vector<float> values;  // of a row's actions
    };

    void act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) override;
    double update(const Update& update) override;
    void draw(const Update& update) override;
    void row_added(int row) override;
    std::vector<NamedFigure> named_figures() const override;
    void learn_rows(int first, int rows, Workspace& workspace, float* gradient, Figures& figures);
    // The value of the best action in the next state of a row.
    float next_value(const Workspace& workspace, int row, std::vector<float>& values) const;

    const DqnConfig dqn_;
    const std::unique_ptr<Network> network_;
    const ActionValues values_;
    TrainedNetwork online_;
    TargetNetwork target_;
    std::vector<Workspace> workspaces_;
    const std::unique_ptr<PriorityTree> priorities_;  // or null
    std::vector<float> td_errors_;                    // [batch_size]
};

}  // namespace engine
