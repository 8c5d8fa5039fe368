#include "off_policy_bindings.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "plan_reader.hpp"

namespace nb = nanobind;

namespace engine {

using std::to_string;

void* keep_observations(KeptArrays& owner, InputKind kind, nb::handle array, std::size_t count, const char* name) {
    switch (kind) {
        case InputKind::FLOATS: return owner.keep<float>(array, count, name);
        case InputKind::BYTES: return owner.keep<std::uint8_t>(array, count, name);
        case InputKind::CATEGORICAL: return owner.keep<std::int64_t>(array, count, name);
    }
    return nullptr;
}

std::size_t rows_of(nb::handle array) { return nb::cast<std::size_t>(array.attr("shape")[nb::int_(0)]); }

void keep_finals(PyOffPolicy& owner, ReplaySampler& sampler, nb::handle array) {
    const std::size_t count = rows_of(array);
    sampler.set_finals(keep_observations(owner, owner.input_kind, array, count * owner.observation_items, "finals"),
                       static_cast<int>(count));
}

ReplaySampler read_replay(PyOffPolicy& owner, const nb::dict& arrays, nb::handle input_plan, nb::handle normalizer,
                          const ActionSpace& space, int n_step, float gamma) {
    ObservationReader reader = read_input_plan(input_plan);
    read_normalizer(owner, normalizer, reader);
    owner.input_kind = reader.kind;
    owner.observation_items = reader.parts();
    const nb::handle rewards = arrays["rewards"];
    ReplayArrays replay{};
    replay.rows = static_cast<int>(rows_of(rewards));
    replay.env_count = nb::cast<int>(rewards.attr("shape")[nb::int_(1)]);
    replay.parts = space.parts();
    const std::size_t steps = static_cast<std::size_t>(replay.rows) * replay.env_count;
    replay.observations = keep_observations(owner, reader.kind, arrays["observations"], steps * reader.parts());
    replay.rewards = owner.keep<float>(rewards, steps, "rewards");
    replay.ends = owner.keep<std::uint8_t>(arrays["ends"], steps, "ends");
    replay.final_slots = owner.keep<std::int32_t>(arrays["final_slots"], steps, "final_slots");
    if (space.choices) {
        replay.actions.discrete = owner.keep<std::int64_t>(arrays["actions"], steps, "actions");
    } else {
        replay.actions.continuous = owner.keep<float>(arrays["actions"], steps * replay.parts, "actions");
    }
    ReplaySampler sampler(replay, std::move(reader), n_step, gamma);
    keep_finals(owner, sampler, arrays["finals"]);
    return sampler;
}

std::unique_ptr<Network> make_network(nb::handle plan, std::size_t parameter_count, const Kernels& kernels,
                                      InputGradients input_gradients) {
    NetworkPlan network = read_network_plan(plan);
    if (!network.cells.empty() || !network.tables.empty()) {
        throw std::invalid_argument("off-policy learners take no recurrent cells and no embedding tables");
    }
    return std::make_unique<Network>(std::move(network), parameter_count, ROWS, kernels, input_gradients);
}

const Kernels& kernels_of(const std::string& name) {
    const Kernels* kernels = find_kernels(name.c_str());
    if (!kernels) throw std::invalid_argument("this CPU cannot run the kernels '" + name + "'");
    return *kernels;
}

nb::dict columns_of(const std::vector<EpisodeEnd>& ends) {
    std::vector<int> indices, lengths;
    std::vector<double> total_rewards;
    nb::list terminated;
    for (const EpisodeEnd& end : ends) {
        indices.push_back(end.env);
        total_rewards.push_back(end.total_reward);
        lengths.push_back(end.length);
        terminated.append(end.terminated);
    }
    nb::dict columns;
    columns["env_indices"] = nb::cast(indices);
    columns["total_rewards"] = nb::cast(total_rewards);
    columns["lengths"] = nb::cast(lengths);
    columns["terminated"] = terminated;
    return columns;
}

void check_network(const char* name, const Network& network, int slot, int inputs, int outputs) {
    const int found = slot == NO_SLOT ? 0 : network.size(slot);
    if (network.size(0) != inputs || found != outputs) {
        throw std::invalid_argument(std::string(name) + " has " + to_string(network.size(0)) + " inputs and " +
                                    to_string(found) + " outputs, not " + to_string(inputs) + " and " +
                                    to_string(outputs));
    }
}

}  // namespace engine
