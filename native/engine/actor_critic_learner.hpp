// What SAC and TD3 share in the native engine: an actor, one or two critics in one block, and the critics' targets.
#pragma once

#include "off_policy_learner.hpp"

namespace engine {

constexpr int MAX_CRITICS = 2;

// The networks, and what Adam keeps of them.
struct ActorCriticParts {
    std::unique_ptr<Network> actor, critic;
    int critics;  // copies of the critic, one behind the other in their parameters
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
    const Kernels& kernels() const override { return actor_network_->kernels(); }

   protected:
    // Of one thread, for at most ROWS samples.
    struct Workspace {
        Workspace(const Network& actor, const Network& critic, int copies, int parts);
        Pass actor;
        std::vector<Pass> critics;  // [copies]
        FloatArray actions;         // [ROWS, parts] of the actor
        FloatArray targets;         // [ROWS] of the critics
        FloatArray values;          // [ROWS, outputs of a critic] the smallest of all critics
    };

    int parts() const { return space_.parts(); }
    bool has_continuous_actions() const { return space_.choices == 0; }
    int critic_outputs() const { return critic_network_->size(critic_network_->value_slot); }
    const float* observations(int first) const { return batch_.observations.data() + row_offset(first); }
    const float* next_observations(int first) const { return batch_.next_observations.data() + row_offset(first); }
    // What the critics read: the observations alone, or rows of [observation, action] that are written to the pass.
    const float* critic_input(Pass& pass, const float* observations, const float* actions, int rows) const;
    // Passes rows through all critics and writes the smallest values [rows, outputs].
    template <typename Critics>
    void pass_critics(const Critics& critics, const float* input, int rows, Workspace& workspace) const;
    // Adds d loss / d action [rows, parts] of -1 / N times the smallest value, after `pass_critics`.
    void backward_smallest(int rows, Workspace& workspace, float* action_grads) const;

    // Writes the critics' targets [rows] of the batch's rows from `first` on.
    virtual void write_targets(int first, int rows, const CounterRng& noise, Workspace& workspace) = 0;
    // A step of the critics; the norm of their gradient. `noise`: of the next actions.
    double update_critics(const Update& update, double learning_rate, const CounterRng& noise);
    // A step of the actor; the norm of its gradient. `learn_rows(first, rows, workspace, gradient, figures)` adds to the
    // gradient and to the figures, whose sum is `figures`.
    template <typename LearnRows>
    double update_actor(const Update& update, const LearnRows& learn_rows, Figures& figures);
    bool is_actor_due(const Update& update) const { return (update.number + 1) % policy_interval_ == 0; }
    // The figures of the critics; the actor's follow.
    std::vector<NamedFigure> critic_figures() const;

    const std::unique_ptr<Network> actor_network_, critic_network_;
    TrainedNetwork actor_, critics_;
    TargetNetwork critic_targets_;
    const float* critic_values_;
    const float tau_;
    const int policy_interval_;
    std::vector<Workspace> workspaces_;

   private:
    std::size_t row_offset(int first) const { return static_cast<std::size_t>(first) * input_stride(); }
    void learn_critics(int first, int rows, int slice, Workspace& workspace);
};

// Of an update's figures, those of the critics: value and loss of each.
constexpr int CRITIC_FIGURES = 2 * MAX_CRITICS;

template <typename Critics>
void ActorCriticLearner::pass_critics(const Critics& critics, const float* input, int rows,
                                      Workspace& workspace) const {
    const int outputs = critic_outputs();
    for (std::size_t copy = 0; copy < workspace.critics.size(); ++copy) {
        Pass& pass = workspace.critics[copy];
        pass.forward(critics.weights(static_cast<int>(copy)), input, rows);
        const float* values = pass.output(critic_network_->value_slot);
        const std::size_t stride = pass.stride(critic_network_->value_slot);
        float* smallest = workspace.values.data();
        for (int row = 0; row < rows; ++row) {
            for (int k = 0; k < outputs; ++k) {
                float& to = smallest[row * outputs + k];
                to = copy ? std::min(to, values[row * stride + k]) : values[row * stride + k];
            }
        }
    }
}

template <typename LearnRows>
double ActorCriticLearner::update_actor(const Update& update, const LearnRows& learn_rows, Figures& figures) {
    figures = for_each_slice([&](int slice, int first, int last, int worker) {
        float* gradient = actor_.begin_gradient(slice, 0);
        for (int row = first; row < last; row += ROWS) {
            learn_rows(row, std::min(ROWS, last - row), workspaces_[worker], gradient, slice_figures_[slice]);
        }
    });
    return actor_.step(slices(), update.rates.learning_rate, pool_, update.reducer);
}

}  // namespace engine
