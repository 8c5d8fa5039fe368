// What SAC and TD3 share in the native engine: an actor, one or two critics in one block, and the critics' targets.
#pragma once

#include "off_policy_learner.hpp"

namespace engine {

constexpr int MAX_CRITICS = 2;

// The networks and what Adam keeps of them.
struct ActorCriticParts {
    std::unique_ptr<Network> actor, critic;
    int critics;                     // copies of the critic, one behind the other in their parameters
    Parameters actor_parameters, critic_parameters;
    AdamConfig adam;
    float* critic_targets;  // [critic_parameters.count]
    float tau;
    int policy_interval;  // updates of the critics for each of the actor
};

class ActorCriticLearner : public OffPolicyLearner {
   public:
    ActorCriticLearner(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space, ActorCriticParts parts);
    void pack() override;

   protected:
    struct Workspace {
        Workspace(const Network& actor, const Network& critic, int parts);
        Pass actor;
        std::vector<Pass> critics;      // [copies] of the actor's loss; the first one also serves the critics' own
        FloatArray noise, std, actions;  // [ROWS, parts] of the actor's actions
        FloatArray log_probs;            // [ROWS]
        FloatArray targets;              // [ROWS] of the critics
        FloatArray action_grads;         // [ROWS, parts]
    };

    bool has_continuous_actions() const { return space_.choices == 0; }
    int parts() const { return space_.parts(); }
    int observation_size() const { return actor_network_->size(0); }
    // Rows of [observation, action] at the input of a critic; the actions are [rows, parts].
    void write_critic_input(Pass& pass, const float* observations, const float* actions, int rows) const;
    // The smallest value of all critics, of `pass.input` [rows].
    void smallest_values(Pass& pass, const TargetNetwork& critics, int rows, float* out) const;

    // Writes the critics' targets for rows of the batch.
    virtual void write_targets(int first, int rows, const CounterRng& noise, Workspace& workspace) = 0;
    // The critics' values that were trained: of the actions in the batch.
    virtual void learn_critic_rows(int first, int rows, int slice, Workspace& workspace);
    double update_critics(const Update& update, double learning_rate);
    // One step of the actor, whose loss `rows_of_actor(first, rows, slice, workspace)` computes and backpropagates.
    template <typename Rows>
    double update_actor(const Update& update, const Rows& rows_of_actor);
    // Adds the gradient of a mean squared error for the value of one output of each row.
    void backward_errors(int copy, int first, int rows, int slice, Workspace& workspace);

    const std::unique_ptr<Network> actor_network_, critic_network_;
    TrainedNetwork actor_, critics_;
    TargetNetwork critic_targets_;
    const float tau_;
    const int policy_interval_;
    std::vector<Workspace> workspaces_;
    long actor_updates_ = 0;  // since figures were taken

   private:
    const float* critic_values_;
};

template <typename Rows>
double ActorCriticLearner::update_actor(const Update& update, const Rows& rows_of_actor) {
    for_each_slice([&](int slice, int first, int last, int worker) {
        actor_.begin_gradient(slice, 0);
        for (int row = first; row < last; row += ROWS) {
            rows_of_actor(row, std::min(ROWS, last - row), slice, workspaces_[worker]);
        }
    });
    actor_updates_ += 1;
    return actor_.step(slices(), update.rates.learning_rate, pool_, update.reducer);
}

}  // namespace engine
