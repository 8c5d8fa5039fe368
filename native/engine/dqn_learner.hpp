// DQN: one network of action values and its target (algorithms/dqn in Python is the reference).
#pragma once

#include "action_values.hpp"
#include "off_policy_learner.hpp"
#include "priority_tree.hpp"

namespace engine {

struct DqnConfig {
    bool is_double, is_huber;
    float tau;
    PriorityConfig priorities;
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
        explicit Workspace(const Network& network) : online(network), next(network), target(network) {}
        Pass online, next, target;
    };

    void act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) override;
    double update(const Update& update) override;
    void draw(const Update& update) override;
    void row_added(int row) override;
    std::vector<NamedFigure> named_figures() const override;
    void learn_rows(int first, int rows, Workspace& workspace, float* gradient, Figures& figures);
    // The value of the best action in the next state of a row.
    float next_value(const Workspace& workspace, int row) const;

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
