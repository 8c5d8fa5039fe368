// TD3, and DDPG as its settings (algorithms/td3 in Python is the reference).
#pragma once

#include "actor_critic_learner.hpp"

namespace engine {

struct Td3Config {
    float exploration_noise, target_noise, target_noise_clip;  // in halves of an action's range
};

// The actor's network ends with tanh.
class Td3Learner : public ActorCriticLearner {
   public:
    // `actor_target`: [parameters of the actor]
    Td3Learner(const OffPolicyConfig& config, const Td3Config& td3, ReplaySampler sampler, ActionSpace space,
               ActorCriticParts parts, float* actor_target);
    void pack() override;

   private:
    void act_rows(const float* inputs, int first, int last, std::int64_t number, double exploration) override;
    void write_targets(int first, int rows, const CounterRng& noise, Workspace& workspace) override;
    double update(const Update& update) override;
    std::vector<NamedFigure> named_figures() const override;
    void learn_actor(int first, int rows, Workspace& workspace, float* gradient, Figures& figures);
    // The actions at the actor's output, [rows, parts].
    void read_actions(const Pass& actor, int rows, float* actions) const;

    const Td3Config td3_;
    TargetNetwork actor_target_;
    const float* actor_values_;
    static constexpr int ACTOR_LOSS = CRITIC_FIGURES;
};

}  // namespace engine
