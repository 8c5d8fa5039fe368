// What the bindings of off-policy learners share.
#pragma once

#include "bindings.hpp"
#include "off_policy_learner.hpp"

namespace engine {

// A learner, and the Python arrays that it reads and writes.
struct PyOffPolicy : KeptArrays {
    std::unique_ptr<OffPolicyLearner> learner;
    InputKind input_kind = InputKind::FLOATS;
    std::size_t observation_items = 0;
};

std::size_t rows_of(nanobind::handle array);
void* keep_observations(KeptArrays& owner, InputKind kind, nanobind::handle array, std::size_t count,
                        const char* name = "observations");
// As the columns of EpisodeColumns.
nanobind::dict columns_of(const std::vector<EpisodeEnd>& ends);
void keep_finals(PyOffPolicy& owner, ReplaySampler& sampler, nanobind::handle array);
// `arrays`: those of the replay buffer, by name.
ReplaySampler read_replay(PyOffPolicy& owner, const nanobind::dict& arrays, nanobind::handle input_plan,
                          nanobind::handle normalizer, const ActionSpace& space, int n_step, float gamma);
const Kernels& kernels_of(const std::string& name);
// Throws std::invalid_argument, unless the network has these inputs and outputs.
std::unique_ptr<Network> make_network(nanobind::handle plan, std::size_t parameter_count, const Kernels& kernels,
                                      InputGradients input_gradients);
void check_network(const char* name, const Network& network, int slot, int inputs, int outputs);
void bind_actor_critics(nanobind::module_& module);
void bind_pqn(nanobind::module_& module);

}  // namespace engine
