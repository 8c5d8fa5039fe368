// SAC for continuous and for discrete actions (algorithms/sac in Python is the reference).
#pragma once

#include "actor_critic_learner.hpp"

namespace engine {

// The weight of the entropy; learned, if `parameters` are given.
struct Temperature {
    float* log_alpha;      // [1]
    Parameters learned;    // of log_alpha: count 1, or 0 if it is fixed
    AdamConfig adam;
    float target_entropy;

    float value() const;
};

class SacLearner : public ActorCriticLearner {
   public:
    SacLearner(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space, ActorCriticParts parts,
               const Temperature& temperature);

   protected:
    void learn_temperature(const Update& update, Figures& figures);
    double update(const Update& update) override;
    std::vector<NamedFigure> named_figures() const override;
    // Adds to the actor's gradient, and to the figures: its loss and entropy.
    virtual void learn_actor(int first, int rows, const CounterRng& noise, Workspace& workspace, float* gradient,
                             Figures& figures) = 0;

    Temperature temperature_;
    float alpha_ = 1;  // of the current update

    // In `Figures`, after those of the critics.
    static constexpr int ACTOR_LOSS = CRITIC_FIGURES, ENTROPY = ACTOR_LOSS + 1, ALPHA = ENTROPY + 1,
                         ALPHA_LOSS = ALPHA + 1;
};

class ContinuousSac : public SacLearner {
   public:
    ContinuousSac(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space, ActorCriticParts parts,
                  const Temperature& temperature);

   private:
    // Actions of at most ROWS samples, of one thread: [ROWS, parts] each.
    struct Actions {
        explicit Actions(int parts);
        FloatArray mean, log_std, noise, std, unit, log_densities, grads, mean_grads, log_std_grads;
        FloatArray log_probs;  // [ROWS]
    };

    void act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) override;
    void write_targets(int first, int rows, const CounterRng& noise, Workspace& workspace) override;
    void learn_actor(int first, int rows, const CounterRng& noise, Workspace& workspace, float* gradient,
                     Figures& figures) override;
    // Actions of the rows at the actor's output, and their log-probabilities; `first` row of the noise.
    void sample(const Pass& actor, int first, int rows, const CounterRng& noise, Actions& actions) const;
    Actions& actions_of(const Workspace& workspace) { return actions_[&workspace - workspaces_.data()]; }

    float log_half_widths_ = 0;  // sum over the entries of an action
    std::vector<Actions> actions_;  // of each thread
};

class DiscreteSac : public SacLearner {
   public:
    DiscreteSac(const OffPolicyConfig& config, ReplaySampler sampler, ActionSpace space, ActorCriticParts parts,
                const Temperature& temperature);

   private:
    // The policy of one sample, [choices] each.
    struct Row {
        explicit Row(int choices) : probs(choices), log_probs(choices) {}
        std::vector<float> probs, log_probs;
    };

    void act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) override;
    void write_targets(int first, int rows, const CounterRng& noise, Workspace& workspace) override;
    void learn_actor(int first, int rows, const CounterRng& noise, Workspace& workspace, float* gradient,
                     Figures& figures) override;
    void read_policy(const Pass& pass, int row, Row& policy) const;
    Row& row_of(const Workspace& workspace) { return rows_[&workspace - workspaces_.data()]; }

    std::vector<Row> rows_;  // of each thread
};

}  // namespace engine
