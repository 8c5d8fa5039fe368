// The extension module palaestra.training.engines.native_learner: the learner of PQN.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "off_policy_bindings.hpp"
#include "plan_reader.hpp"
#include "pqn_learner.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

using std::to_string;

// A learner, and the Python arrays that it reads and writes.
struct PyPqn : KeptArrays {
    std::unique_ptr<PqnLearner> learner;
    InputKind input_kind = InputKind::FLOATS;
    std::size_t observation_items = 0;
};

// `arrays`: observations [T + 1, B, …], rewards, terminated, actions, next_values and returns [T, B], starts [T + 1, B]
RolloutBuffer read_rollout(PyPqn& owner, const nb::dict& arrays) {
    RolloutBuffer buffer{};
    const nb::handle rewards = arrays["rewards"];
    buffer.horizon = static_cast<int>(rows_of(rewards));
    buffer.env_count = nb::cast<int>(rewards.attr("shape")[nb::int_(1)]);
    const std::size_t samples = buffer.samples(), rows = samples + buffer.env_count;
    buffer.observations =
        keep_observations(owner, owner.input_kind, arrays["observations"], rows * owner.observation_items);
    buffer.rewards = owner.keep<float>(rewards, samples, "rewards");
    buffer.starts = owner.keep<bool>(arrays["starts"], rows, "starts");
    buffer.terminated = owner.keep<bool>(arrays["terminated"], samples, "terminated");
    buffer.actions.discrete = owner.keep<std::int64_t>(arrays["actions"], samples, "actions");
    buffer.next_values = owner.keep<float>(arrays["next_values"], samples, "next_values");
    buffer.returns = owner.keep<float>(arrays["returns"], samples, "returns");
    return buffer;
}

void make_learner(PyPqn* place, nb::handle network_plan, nb::handle input_plan, int choices, const nb::dict& parameters,
                  const nb::dict& buffer, nb::handle normalizer, const PqnConfig& config, const AdamConfig& adam,
                  const std::string& kernel_name) {
    PyPqn owner;
    const Parameters own = read_parameters(owner, parameters);
    auto network = make_network(network_plan, own.count, kernels_of(kernel_name), InputGradients::NO);
    ObservationReader reader = read_input_plan(input_plan);
    read_normalizer(owner, normalizer, reader);
    check_network("the network", *network, network->action_slot, reader.size, choices);
    owner.input_kind = reader.kind;
    owner.observation_items = reader.parts();
    RolloutBuffer rollout = read_rollout(owner, buffer);
    owner.learner =
        std::make_unique<PqnLearner>(config, std::move(network), std::move(reader), own, adam, std::move(rollout));
    new (place) PyPqn(std::move(owner));
}

void act(PyPqn& owner, int step, std::int64_t number, double epsilon) {
    const int horizon = owner.learner->buffer().horizon;
    if (step < 0 || step >= horizon) {
        throw std::out_of_range("step " + to_string(step) + " is not from 0 to " + to_string(horizon - 1));
    }
    const nb::gil_scoped_release without_gil;
    owner.learner->read_observations(step);
    owner.learner->act(step, number, epsilon);
}

nb::dict collect(PyPqn& owner, NativeEnvs& envs, std::int64_t first_number, Array<const double> epsilons) {
    const RolloutBuffer& buffer = owner.learner->buffer();
    check_size(epsilons, buffer.horizon, "epsilons");
    if (envs.count() != buffer.env_count || owner.input_kind != InputKind::FLOATS ||
        static_cast<int>(owner.observation_items) != envs.observation_size() ||
        envs.dynamics().has_continuous_actions()) {
        throw std::invalid_argument(
            "the number, observations or actions of these environments do not match the rollout buffer");
    }
    std::vector<EpisodeEnd> ends;
    {
        const nb::gil_scoped_release without_gil;
        ends = owner.learner->collect(envs, first_number, epsilons.data());
    }
    return columns_of(ends);
}

void estimate_returns(PyPqn& owner, nb::handle final_observations, const std::vector<int>& steps,
                      const std::vector<int>& envs) {
    const RolloutBuffer& buffer = owner.learner->buffer();
    const ObservationReader& reader = owner.learner->reader();
    KeptArrays given;
    const void* finals =
        keep_observations(given, owner.input_kind, final_observations, steps.size() * owner.observation_items);
    if (envs.size() != steps.size()) throw std::invalid_argument("steps and envs have different lengths");
    std::vector<Truncation> truncations;
    for (std::size_t k = 0; k < steps.size(); ++k) {
        if (steps[k] < 0 || steps[k] >= buffer.horizon || envs[k] < 0 || envs[k] >= buffer.env_count) {
            throw std::out_of_range("step " + to_string(steps[k]) + " of environment " + to_string(envs[k]) +
                                    " is outside the rollout");
        }
        truncations.push_back({steps[k], envs[k], std::vector<float>(owner.learner->input_stride()), {}});
        if (!reader.read(finals, k, truncations.back().observation.data())) {
            throw std::out_of_range("a final observation is not one of its space's categories");
        }
    }
    const nb::gil_scoped_release without_gil;
    owner.learner->read_observations(buffer.horizon);
    owner.learner->estimate_returns(truncations);
}

double update(PyPqn& owner, std::int64_t iteration, double learning_rate, Reducer* reducer) {
    const nb::gil_scoped_release without_gil;
    return owner.learner->update(iteration, learning_rate, reducer);
}

// Means over the minibatches of the last update.
nb::dict stats(const PyPqn& owner) {
    const PqnSums& sums = owner.learner->sums();
    const double count = static_cast<double>(sums.minibatches);
    nb::dict named;
    named["losses/td_loss"] = sums.loss / count;
    named["losses/q_values"] = sums.value / count;
    named["losses/grad_norm"] = sums.norm / count;
    return named;
}

}  // namespace

void bind_pqn(nb::module_& module) {
    nb::class_<PqnConfig>(module, "PqnConfig")
        .def(
            "__init__",
            [](PqnConfig* place, float gamma, float q_lambda, int epochs, int minibatch_size, int threads,
               std::uint64_t exploration, std::uint64_t epsilon, std::uint64_t order) {
                if (epochs < 1 || minibatch_size < 1 || threads < 1) {
                    throw std::invalid_argument("epochs=" + to_string(epochs) + ", minibatch_size=" +
                                                to_string(minibatch_size) + " and threads=" + to_string(threads) +
                                                " must be at least 1");
                }
                new (place)
                    PqnConfig{gamma, q_lambda, epochs, minibatch_size, threads, exploration, epsilon, order};
            },
            nb::kw_only(), "gamma"_a, "q_lambda"_a, "epochs"_a, "minibatch_size"_a, "threads"_a, "exploration_seed"_a,
            "epsilon_seed"_a, "order_seed"_a);
    nb::class_<PyPqn>(module, "PqnLearner")
        .def("__init__", &make_learner, nb::kw_only(), "network"_a, "network_input"_a, "choices"_a, "parameters"_a,
             "buffer"_a, "normalizer"_a.none(), "config"_a, "adam"_a, "kernels"_a = "")
        .def("pack", [](PyPqn& owner) { owner.learner->pack(); })
        .def("act", &act, "step"_a, "number"_a, "epsilon"_a)
        .def("collect", &collect, "envs"_a, "first_number"_a, "epsilons"_a)
        .def("estimate_returns", &estimate_returns, "final_observations"_a, "steps"_a, "envs"_a)
        .def("update", &update, "iteration"_a, "learning_rate"_a, "reducer"_a.none() = nb::none())
        .def("stats", &stats)
        .def_prop_ro("kernels", [](const PyPqn& owner) { return std::string(owner.learner->kernels().name); });
}

}  // namespace engine
