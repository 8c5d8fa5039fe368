// The extension module palaestra.training.engines.native_learner: learners of DQN, PQN, SAC and TD3.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "dqn_learner.hpp"
#include "off_policy_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

using std::to_string;

ActionSpace make_space(int choices, std::vector<float> half_width, std::vector<float> middle) {
    if ((choices > 0) == !middle.empty() || half_width.size() != middle.size()) {
        throw std::invalid_argument("an action space has choices, or half_width and middle of equal lengths");
    }
    return {choices, std::move(half_width), std::move(middle)};
}

std::unique_ptr<PriorityTree> read_priorities(PyOffPolicy& owner, nb::handle sums, const ReplayArrays& arrays,
                                              const PriorityConfig& config) {
    if (sums.is_none()) return nullptr;
    const std::size_t nodes = rows_of(sums);
    return std::make_unique<PriorityTree>(owner.keep<double>(sums, nodes, "priorities"), nodes / 2,
                                          static_cast<std::int64_t>(arrays.rows) * arrays.env_count, config);
}

PyOffPolicy make_dqn(nb::handle network_plan, nb::handle input_plan, const ActionSpace& space,
              const nb::dict& parameters, nb::handle target, const nb::dict& buffer, nb::handle normalizer,
              const OffPolicyConfig& config, const AdamConfig& adam, const DqnConfig& dqn, nb::handle priorities,
              int n_step, float gamma, const std::string& kernel_name) {
    PyOffPolicy owner;
    const Kernels& kernels = kernels_of(kernel_name);
    const Parameters own = read_parameters(owner, parameters);
    auto network = make_network(network_plan, own.count, kernels, InputGradients::NO);
    ReplaySampler sampler = read_replay(owner, buffer, input_plan, normalizer, space, n_step, gamma);
    check_network("the network", *network, network->action_slot, sampler.reader().size, space.choices);
    auto tree = read_priorities(owner, priorities, sampler.arrays(), dqn.priorities);
    owner.learner = std::make_unique<DqnLearner>(config, dqn, std::move(sampler), space, std::move(network), own, adam,
                                                 owner.keep<float>(target, own.count, "target"), std::move(tree));
    return owner;
}

PriorityTree& priorities_of(PyOffPolicy& owner) {
    auto* learner = dynamic_cast<DqnLearner*>(owner.learner.get());
    if (!learner || !learner->priorities()) throw std::invalid_argument("this learner has no priorities");
    return *learner->priorities();
}

// ---- what all of them offer

using Position = std::tuple<int, int, std::int64_t, std::vector<int>>;  // row, rows, rows so far, free final slots

void set_position(PyOffPolicy& owner, const Position& position, nb::handle finals) {
    ReplaySampler& sampler = owner.learner->sampler();
    const ReplayArrays& arrays = sampler.arrays();
    const auto& [row, size, total, free_slots] = position;
    if (row < 0 || row >= arrays.rows || size < 0 || size >= arrays.rows) {
        throw std::out_of_range("row " + to_string(row) + " and size " + to_string(size) +
                                " do not fit a replay buffer of " + to_string(arrays.rows) + " rows");
    }
    if (!finals.is_none()) keep_finals(owner, sampler, finals);
    for (const int slot : free_slots) {
        if (slot < 0 || slot >= arrays.final_count) {
            throw std::out_of_range("slot " + to_string(slot) + " is not one of " + to_string(arrays.final_count));
        }
    }
    sampler.position() = {row, size, total, free_slots};
}

Position get_position(PyOffPolicy& owner) {
    const ReplayPosition& position = owner.learner->sampler().position();
    return {position.position, position.size, position.total_rows, position.free_slots};
}

void act(PyOffPolicy& owner, std::int64_t number, bool is_random, double exploration) {
    const nb::gil_scoped_release without_gil;
    owner.learner->act(number, is_random, exploration);
}

int learn(PyOffPolicy& owner, int count, std::int64_t first, double learning_rate, double second_rate,
          Reducer* reducer) {
    const nb::gil_scoped_release without_gil;
    return owner.learner->learn(count, first, {learning_rate, second_rate}, reducer);
}

std::tuple<int, nb::dict> run(PyOffPolicy& owner, NativeEnvs& envs, std::int64_t first_step, std::int64_t first_update,
                              Array<const bool> is_random, Array<const double> exploration,
                              Array<const std::int32_t> updates_due, Array<const std::int32_t> targets_due,
                              Array<const double> learning_rates, Array<const double> second_rates,
                              Reducer* reducer) {
    const std::size_t count = updates_due.size();
    check_size(is_random, count, "is_random");
    check_size(exploration, count, "exploration");
    check_size(targets_due, count, "targets_due");
    check_size(learning_rates, count, "learning_rates");
    check_size(second_rates, count, "second_rates");
    const ReplayArrays& arrays = owner.learner->sampler().arrays();
    if (envs.count() != arrays.env_count || owner.input_kind != InputKind::FLOATS ||
        static_cast<int>(owner.observation_items) != envs.observation_size() ||
        envs.dynamics().has_continuous_actions() != (arrays.actions.continuous != nullptr)) {
        throw std::invalid_argument(
            "the number, observations or actions of these environments do not match the replay buffer");
    }
    const StepSchedule steps = {static_cast<int>(count), first_step,           is_random.data(),
                                exploration.data(),      updates_due.data(),   targets_due.data(),
                                learning_rates.data(),   second_rates.data()};
    std::vector<EpisodeEnd> ended;
    int made = 0;
    {
        const nb::gil_scoped_release without_gil;
        made = owner.learner->run(envs, steps, first_update, reducer, ended);
    }
    return {made, columns_of(ended)};
}

// By name: the sum over updates, and their number.
std::vector<std::tuple<std::string, double, long>> take_figures(PyOffPolicy& owner) {
    std::vector<std::tuple<std::string, double, long>> figures;
    for (const NamedFigure& figure : owner.learner->take_figures()) {
        figures.emplace_back(figure.name, figure.sum, figure.updates);
    }
    return figures;
}

void bind_configs(nb::module_& module) {
    nb::class_<AdamConfig>(module, "AdamConfig")
        .def(
            "__init__",
            [](AdamConfig* place, float beta1, float beta2, float epsilon, float weight_decay, bool is_rectified,
               float max_grad_norm) {
                new (place) AdamConfig{beta1, beta2, epsilon, weight_decay, is_rectified, max_grad_norm};
            },
            nb::kw_only(), "beta1"_a, "beta2"_a, "epsilon"_a, "weight_decay"_a, "is_rectified"_a, "max_grad_norm"_a);
    nb::class_<OffPolicyConfig>(module, "OffPolicyConfig")
        .def(
            "__init__",
            [](OffPolicyConfig* place, int batch_size, int threads, std::uint64_t exploration, std::uint64_t replay,
               std::uint64_t epsilon, std::uint64_t noise, std::uint64_t target_noise) {
                if (batch_size < 1 || threads < 1) {
                    throw std::invalid_argument("batch_size=" + to_string(batch_size) +
                                                " and threads=" + to_string(threads) + " must be at least 1");
                }
                new (place) OffPolicyConfig{batch_size, threads, {exploration, epsilon, replay, noise, target_noise}};
            },
            nb::kw_only(), "batch_size"_a, "threads"_a, "exploration_seed"_a, "replay_seed"_a, "epsilon_seed"_a = 0,
            "noise_seed"_a = 0,
            "target_noise_seed"_a = 0);
    nb::class_<ActionSpace>(module, "ActionSpace")
        .def(
            "__init__",
            [](ActionSpace* place, int choices, std::vector<float> half_width, std::vector<float> middle) {
                new (place) ActionSpace(make_space(choices, std::move(half_width), std::move(middle)));
            },
            nb::kw_only(), "choices"_a = 0, "half_width"_a = std::vector<float>(), "middle"_a = std::vector<float>());
    nb::class_<DqnConfig>(module, "DqnConfig")
        .def(
            "__init__",
            [](DqnConfig* place, bool is_double, bool is_huber, float tau, double alpha, double epsilon) {
                new (place) DqnConfig{is_double, is_huber, tau, {alpha, epsilon}};
            },
            nb::kw_only(), "is_double"_a, "is_huber"_a, "tau"_a, "priority_alpha"_a, "priority_epsilon"_a);
}

}  // namespace

void bind_off_policy(nb::module_& module) {
    bind_configs(module);
    bind_actor_critics(module);
    bind_pqn(module);
    nb::class_<PyOffPolicy>(module, "OffPolicyLearner")
        .def("set_position", &set_position, "position"_a, "finals"_a.none() = nb::none())
        .def("position", &get_position)
        .def("pack", [](PyOffPolicy& owner) { owner.learner->pack(); })
        .def("act", &act, "number"_a, "is_random"_a, "exploration"_a)
        .def("learn", &learn, "count"_a, "first"_a, "learning_rate"_a, "second_rate"_a, "reducer"_a.none() = nb::none())
        .def("update_targets", [](PyOffPolicy& owner) { owner.learner->update_targets(); })
        .def("run", &run, nb::kw_only(), "envs"_a, "first_step"_a, "first_update"_a, "is_random"_a, "exploration"_a,
             "updates_due"_a, "targets_due"_a, "learning_rates"_a, "second_rates"_a, "reducer"_a.none() = nb::none())
        .def_prop_rw(
            "largest_priority", [](PyOffPolicy& owner) { return priorities_of(owner).largest; },
            [](PyOffPolicy& owner, double largest) { priorities_of(owner).largest = largest; })
        .def("take_figures", &take_figures)
        .def_prop_ro("kernels", [](const PyOffPolicy& owner) { return std::string(owner.learner->kernels().name); })
        .def_prop_ro("learning_seconds", [](const PyOffPolicy& owner) { return owner.learner->learning_seconds(); })
        .def_prop_ro("last_norm", [](const PyOffPolicy& owner) { return owner.learner->last_norm(); });
    module.def("make_dqn_learner", &make_dqn, nb::kw_only(), "network"_a, "network_input"_a, "action_space"_a,
               "parameters"_a, "target"_a, "buffer"_a, "normalizer"_a.none(), "config"_a, "adam"_a, "dqn"_a, "priorities"_a.none(),
               "n_step"_a, "gamma"_a, "kernels"_a = "");
}

}  // namespace engine
