// The extension module palaestra.training.engines.native_learner: learners of SAC and TD3.
#include <nanobind/stl/string.h>

#include "off_policy_bindings.hpp"
#include "sac_learner.hpp"
#include "td3_learner.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

// What SAC and TD3 are both made of; the arrays are kept alive by the learner's owner.
struct Settings {
    int critics, policy_interval, n_step;
    float gamma, tau;
};

ActorCriticParts read_parts(PyOffPolicy& owner, nb::handle actor, nb::handle critic, const nb::dict& actor_parameters,
                            const nb::dict& critic_parameters, nb::handle critic_targets, const AdamConfig& adam,
                            const Settings& settings, const Kernels& kernels) {
    if (settings.critics < 1) throw std::invalid_argument("an actor needs at least one critic");
    ActorCriticParts parts{};
    parts.actor_parameters = read_parameters(owner, actor_parameters);
    parts.critic_parameters = read_parameters(owner, critic_parameters);
    parts.actor = make_network(actor, parts.actor_parameters.count, kernels, InputGradients::NO);
    parts.critic =
        make_network(critic, parts.critic_parameters.count / settings.critics, kernels, InputGradients::YES);
    parts.critics = settings.critics;
    parts.adam = adam;
    parts.critic_targets = owner.keep<float>(critic_targets, parts.critic_parameters.count, "critic_targets");
    parts.tau = settings.tau;
    parts.policy_interval = settings.policy_interval;
    return parts;
}

void check_networks(const ActorCriticParts& parts, const ReplaySampler& sampler, const ActionSpace& space,
                    int actor_outputs) {
    const int size = sampler.reader().size;
    check_network("the actor", *parts.actor, parts.actor->action_slot, size, actor_outputs);
    check_network("the critic", *parts.critic, parts.critic->value_slot, space.choices ? size : size + space.parts(),
                  space.choices ? space.choices : 1);
}

Temperature read_temperature(PyOffPolicy& owner, const nb::dict& arrays, bool is_learned, const AdamConfig& adam,
                             float target_entropy) {
    Temperature temperature{};
    const Parameters own = read_parameters(owner, arrays);
    if (own.count != 1) throw std::invalid_argument("the temperature is one number");
    temperature.log_alpha = own.values;
    if (is_learned) temperature.learned = own;
    temperature.adam = adam;
    temperature.target_entropy = target_entropy;
    return temperature;
}

PyOffPolicy make_sac(nb::handle actor, nb::handle critic, nb::handle input_plan, const ActionSpace& space,
                     const nb::dict& actor_parameters, const nb::dict& critic_parameters, nb::handle critic_targets,
                     const nb::dict& temperature, bool learns_temperature, float target_entropy, const nb::dict& buffer,
                     nb::handle normalizer, const OffPolicyConfig& config, const AdamConfig& adam,
                     const Settings& settings, const std::string& kernel_name) {
    PyOffPolicy owner;
    ActorCriticParts parts = read_parts(owner, actor, critic, actor_parameters, critic_parameters, critic_targets, adam,
                                        settings, kernels_of(kernel_name));
    ReplaySampler sampler =
        read_replay(owner, buffer, input_plan, normalizer, space, settings.n_step, settings.gamma);
    check_networks(parts, sampler, space, space.choices ? space.choices : 2 * space.parts());
    const Temperature alpha = read_temperature(owner, temperature, learns_temperature, adam, target_entropy);
    if (space.choices) {
        owner.learner = std::make_unique<DiscreteSac>(config, std::move(sampler), space, std::move(parts), alpha);
    } else {
        owner.learner = std::make_unique<ContinuousSac>(config, std::move(sampler), space, std::move(parts), alpha);
    }
    return owner;
}

PyOffPolicy make_td3(nb::handle actor, nb::handle critic, nb::handle input_plan, const ActionSpace& space,
                     const nb::dict& actor_parameters, nb::handle actor_target, const nb::dict& critic_parameters,
                     nb::handle critic_targets, const nb::dict& buffer, nb::handle normalizer,
                     const OffPolicyConfig& config, const AdamConfig& adam, const Settings& settings,
                     const Td3Config& td3, const std::string& kernel_name) {
    PyOffPolicy owner;
    if (space.choices) throw std::invalid_argument("TD3 needs continuous actions");
    ActorCriticParts parts = read_parts(owner, actor, critic, actor_parameters, critic_parameters, critic_targets, adam,
                                        settings, kernels_of(kernel_name));
    ReplaySampler sampler =
        read_replay(owner, buffer, input_plan, normalizer, space, settings.n_step, settings.gamma);
    check_networks(parts, sampler, space, space.parts());
    float* target = owner.keep<float>(actor_target, parts.actor_parameters.count, "actor_target");
    owner.learner =
        std::make_unique<Td3Learner>(config, td3, std::move(sampler), space, std::move(parts), target);
    return owner;
}

}  // namespace

void bind_actor_critics(nb::module_& module) {
    nb::class_<Settings>(module, "ActorCriticConfig")
        .def(
            "__init__",
            [](Settings* place, int critics, int policy_interval, int n_step, float gamma, float tau) {
                new (place) Settings{critics, policy_interval, n_step, gamma, tau};
            },
            nb::kw_only(), "critics"_a, "policy_interval"_a, "n_step"_a, "gamma"_a, "tau"_a);
    nb::class_<Td3Config>(module, "Td3Config")
        .def(
            "__init__",
            [](Td3Config* place, float exploration_noise, float target_noise, float target_noise_clip) {
                new (place) Td3Config{exploration_noise, target_noise, target_noise_clip};
            },
            nb::kw_only(), "exploration_noise"_a, "target_noise"_a, "target_noise_clip"_a);
    module.def("make_sac_learner", &make_sac, nb::kw_only(), "actor"_a, "critic"_a, "network_input"_a, "action_space"_a,
               "actor_parameters"_a, "critic_parameters"_a, "critic_targets"_a, "temperature"_a, "learns_temperature"_a,
               "target_entropy"_a, "buffer"_a, "normalizer"_a.none(), "config"_a, "adam"_a, "settings"_a,
               "kernels"_a = "");
    module.def("make_td3_learner", &make_td3, nb::kw_only(), "actor"_a, "critic"_a, "network_input"_a, "action_space"_a,
               "actor_parameters"_a, "actor_target"_a, "critic_parameters"_a, "critic_targets"_a, "buffer"_a,
               "normalizer"_a.none(), "config"_a, "adam"_a, "settings"_a, "td3"_a, "kernels"_a = "");
}

}  // namespace engine
