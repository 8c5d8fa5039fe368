// The extension module palaestra.training.engines.native_learner: environments that are stepped in C++.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "batch_rollout.hpp"
#include "off_policy_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

using std::to_string;
using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

// ---- environments of the engine

using Words = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;  // high and low: state, increment

// The state of one environment as Python reads and writes it.
struct PyEnvState {
    std::vector<double> state;
    Words rng;
    double total_reward;
    int length, elapsed_steps;
};

struct PyEpisodeEnd {
    int env;
    double total_reward;
    int length;
    bool terminated;
    std::vector<float> final_observation;
};

void make_envs(NativeEnvs* place, const std::string& dynamics, const std::map<std::string, double>& constants,
               int count, int time_limit) {
    new (place) NativeEnvs(make_dynamics(dynamics, constants), count, time_limit);
}

PyEnvState get_state(NativeEnvs& envs, int index) {
    const EnvState& state = envs.at(index);
    const auto high = [](Pcg64::Wide wide) { return static_cast<std::uint64_t>(wide >> 64); };
    const auto low = [](Pcg64::Wide wide) { return static_cast<std::uint64_t>(wide); };
    return {std::vector<double>(state.state, state.state + envs.state_size()),
            {high(state.rng.state), low(state.rng.state), high(state.rng.increment), low(state.rng.increment)},
            state.total_reward,
            state.length,
            state.elapsed};
}

void set_state(NativeEnvs& envs, int index, const PyEnvState& given) {
    if (static_cast<int>(given.state.size()) != envs.state_size()) {
        throw std::invalid_argument("state has " + to_string(given.state.size()) + " entries, not " +
                                    to_string(envs.state_size()));
    }
    EnvState& state = envs.at(index);
    std::copy(given.state.begin(), given.state.end(), state.state);
    const auto wide = [](std::uint64_t high, std::uint64_t low) {
        return (static_cast<Pcg64::Wide>(high) << 64) | low;
    };
    state.rng.state = wide(std::get<0>(given.rng), std::get<1>(given.rng));
    state.rng.increment = wide(std::get<2>(given.rng), std::get<3>(given.rng));
    state.total_reward = given.total_reward;
    state.length = given.length;
    state.elapsed = given.elapsed_steps;
}

// Steps all environments once. `actions`: int64 [B], or float32 [B, parts].
std::vector<PyEpisodeEnd> step(NativeEnvs& envs, nb::handle actions, Array<float> observations, Array<float> rewards) {
    const std::size_t count = envs.count(), size = envs.observation_size();
    check_size(observations, count * size, "observations");
    check_size(rewards, count, "rewards");
    const std::int64_t* discrete = nullptr;
    const float* continuous = nullptr;
    std::size_t parts = 0;
    if (!envs.dynamics().has_continuous_actions()) {
        const auto array = nb::cast<Array<const std::int64_t>>(actions, false);  // no conversion: a copy would be freed
        check_size(array, count, "actions");
        discrete = array.data();
    } else {
        const auto array = nb::cast<Array<const float>>(actions, false);
        parts = array.size() / count;
        if (!parts) check_size(array, count, "actions");
        continuous = array.data();
    }
    std::vector<PyEpisodeEnd> ends;
    for (std::size_t env = 0; env < count; ++env) {
        const Action action = {discrete ? discrete[env] : 0, continuous ? continuous + env * parts : nullptr};
        EpisodeEnd end;
        float final_observation[MAX_OBSERVATION];
        if (!envs.step_env(static_cast<int>(env), action, observations.data() + env * size, rewards.data() + env, end,
                           final_observation)) {
            continue;
        }
        ends.push_back({end.env, end.total_reward, end.length, end.terminated,
                        std::vector<float>(final_observation, final_observation + size)});
    }
    return ends;
}

// Fills the learner's rollout buffer. Returns the ended episodes as columns: thousands may end in one rollout.
nb::dict collect(NativeEnvs& envs, PyLearner& owner) {
    const Learner& learner = *owner.learner;
    if (envs.count() != learner.buffer().env_count || learner.reader().kind != InputKind::FLOATS ||
        learner.reader().size != envs.observation_size() || !learner.codes().is_empty() ||
        envs.dynamics().has_continuous_actions() != (learner.buffer().actions.continuous != nullptr)) {
        throw std::invalid_argument(
            "the number, observations or actions of these environments do not match the learner's "
            "rollout buffer");
    }
    std::vector<EpisodeEnd> ends;
    {
        const nb::gil_scoped_release without_gil;
        ends = envs.collect(*owner.learner);
    }
    return columns_of(ends);
}

// ---- environments of another module, through the batch step API

constexpr int MAX_PART_COUNT = 256;                               // a larger count is not a valid struct
constexpr const char* OLD_CAPSULE_NAME = "palaestra.batch_door";  // of version 1 before it was renamed; the same struct

void require(bool holds, const std::string& message) {
    if (!holds) throw nb::value_error(message.c_str());
}

std::string quoted(const char* text) { return text ? "'" + std::string(text) + "'" : "nothing"; }

const palaestra_batch_step_api& read_capsule(nb::handle capsule) {
    const std::string expected = std::string("expected a PyCapsule named '") + PALAESTRA_BATCH_STEP_API + "', got ";
    require(PyCapsule_CheckExact(capsule.ptr()), expected + nb::type_name(capsule.type()).c_str());
    const char* name = PyCapsule_IsValid(capsule.ptr(), OLD_CAPSULE_NAME) ? OLD_CAPSULE_NAME : PALAESTRA_BATCH_STEP_API;
    if (!PyCapsule_IsValid(capsule.ptr(), name)) {
        const char* actual = PyCapsule_GetName(capsule.ptr());
        PyErr_Clear();
        throw nb::value_error((expected + "one named " + quoted(actual)).c_str());
    }
    const auto* api = static_cast<const palaestra_batch_step_api*>(PyCapsule_GetPointer(capsule.ptr(), name));
    require(api->version == PALAESTRA_BATCH_STEP_API_VERSION, "version " + to_string(api->version) +
                                                                  " of the struct is not supported (expected version " +
                                                                  to_string(PALAESTRA_BATCH_STEP_API_VERSION) + ")");
    require(api->begin && api->end && api->step, "one of the functions begin, end and step is missing");
    return *api;
}

const palaestra_batch_step_api& check_api(nb::handle capsule, const Learner& learner) {
    const palaestra_batch_step_api& api = read_capsule(capsule);
    const std::int64_t rows = static_cast<std::int64_t>(api.world_count) * api.agents;
    require(api.world_count >= 1 && api.agents >= 1 && rows == learner.buffer().env_count,
            to_string(api.world_count) + " worlds of " + to_string(api.agents) + " agents do not match the " +
                to_string(learner.buffer().env_count) + " rows of the rollout buffer");
    const bool is_discrete = learner.buffer().actions.discrete != nullptr;
    require(is_discrete && api.action_items == learner.action_parts(),
            "an action has " + to_string(api.action_items) + " discrete entries, but the policy's has " +
                (is_discrete ? to_string(learner.action_parts()) : "continuous ones"));
    return api;
}

const char* dtype_of(const AnyArray& array) {
    if (array.dtype() == nb::dtype<std::uint8_t>()) return "uint8";
    if (array.dtype() == nb::dtype<std::int64_t>()) return "int64";
    return array.dtype() == nb::dtype<float>() ? "float32" : "another dtype";
}

ObservationBlock read_block(const palaestra_batch_part& part, const nb::dict& blocks, std::size_t rows) {
    require(part.name && part.dtype, "a part of the observation has no name or no dtype");
    const std::string name = "part " + quoted(part.name);
    require(blocks.contains(part.name), name + " does not exist in the observation space");
    const AnyArray array = nb::cast<AnyArray>(blocks[part.name], false);
    require(std::string(part.dtype) == dtype_of(array),
            name + " has dtype " + part.dtype + ", but the rollout buffer has " + dtype_of(array));
    const std::size_t items = array.size() / rows;
    require(array.size() % rows == 0 && part.items >= 0 && static_cast<std::size_t>(part.items) == items,
            name + " has " + to_string(part.items) + " items per row, but the rollout buffer has " + to_string(items));
    return {static_cast<std::uint8_t*>(array.data()), items * array.itemsize()};
}

std::vector<ObservationBlock> read_blocks(const palaestra_batch_step_api& api, const nb::dict& blocks,
                                          const Learner& learner) {
    const RolloutBuffer& buffer = learner.buffer();
    const std::string expected = to_string(nb::len(blocks));
    require(
        api.parts && api.part_count >= 1 && api.part_count <= MAX_PART_COUNT && to_string(api.part_count) == expected,
        "observations have " + to_string(api.part_count) + " parts, but the rollout buffer has " + expected);
    std::vector<ObservationBlock> result;
    for (int number = 0; number < api.part_count; ++number) {
        result.push_back(read_block(api.parts[number], blocks, buffer.samples() + buffer.env_count));
    }
    return result;
}

Learner& learner_of(nb::handle owner) { return *nb::cast<PyLearner&>(owner).learner; }

// A batch rollout, and the objects that it keeps alive.
struct PyBatchRollout {
    nb::object capsule, learner;
    std::vector<nb::object> arrays;
    BatchRollout rollout;

    PyBatchRollout(nb::object step_api, nb::handle_t<PyLearner> owner, const nb::dict& blocks)
        : capsule(step_api),
          learner(nb::borrow(owner)),
          rollout(check_api(step_api, learner_of(owner)),
                  read_blocks(read_capsule(step_api), blocks, learner_of(owner)), learner_of(owner)) {
        for (const auto& [name, array] : blocks) arrays.push_back(nb::borrow(array));
    }
};

std::tuple<int, std::vector<int>> run_until_end(PyBatchRollout& owner) {
    EndedWorlds ended;
    {
        const nb::gil_scoped_release without_gil;
        ended = owner.rollout.run_until_end();
    }
    return {ended.step, std::move(ended.worlds)};
}

}  // namespace

void bind_envs(nb::module_& module) {
    nb::class_<PyEnvState>(module, "EnvState")
        .def(
            "__init__",
            [](PyEnvState* place, std::vector<double> state, const Words& rng, double total_reward, int length,
               int elapsed_steps) {
                new (place) PyEnvState{std::move(state), rng, total_reward, length, elapsed_steps};
            },
            nb::kw_only(), "state"_a, "rng"_a, "total_reward"_a, "length"_a, "elapsed_steps"_a)
        .def_ro("state", &PyEnvState::state)
        .def_ro("rng", &PyEnvState::rng)
        .def_ro("total_reward", &PyEnvState::total_reward)
        .def_ro("length", &PyEnvState::length)
        .def_ro("elapsed_steps", &PyEnvState::elapsed_steps);
    nb::class_<PyEpisodeEnd>(module, "EpisodeEnd")
        .def_ro("env", &PyEpisodeEnd::env)
        .def_ro("total_reward", &PyEpisodeEnd::total_reward)
        .def_ro("length", &PyEpisodeEnd::length)
        .def_ro("terminated", &PyEpisodeEnd::terminated)
        .def_ro("final_observation", &PyEpisodeEnd::final_observation);
    nb::class_<NativeEnvs>(module, "NativeEnvs")
        .def("__init__", &make_envs, "dynamics"_a, "constants"_a, "count"_a, "time_limit"_a)
        .def("get_state", &get_state, "index"_a)
        .def("set_state", &set_state, "index"_a, "state"_a)
        .def("step", &step, "actions"_a, "observations"_a.noconvert(), "rewards"_a.noconvert())
        .def("collect", &collect, "learner"_a);
    nb::class_<PyBatchRollout>(module, "BatchRollout")
        .def(nb::init<nb::object, nb::handle_t<PyLearner>, const nb::dict&>(), "step_api"_a, "learner"_a, "blocks"_a)
        .def("start", [](PyBatchRollout& owner) { owner.rollout.start(); })
        .def("run_until_end", &run_until_end);
}

}  // namespace engine
