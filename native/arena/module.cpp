// The extension module palaestra.apps.arena.native_core. Its names are documented in native_core.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "batch.hpp"
#include "python_buffer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace arena {

namespace {

ObservationForm observation_form_of(int number) {
    if (number < 0 || number > 2) throw std::invalid_argument("form must be 0 bytes, 1 tokens or 2 box");
    return static_cast<ObservationForm>(number);
}

void set_station(Task& task, int kind, int count, int cost, int cooldown, int stock) {
    if (kind < 0 || kind >= STATION_KINDS) {
        throw std::out_of_range("station kind " + std::to_string(kind) + " is not from 0 to " +
                                std::to_string(STATION_KINDS - 1));
    }
    task.stations[kind] = {count, cost, cooldown, stock};
}

// The arrays of an observation, kept alive while they are written; `selves` is None except for byte observations.
struct Observation {
    std::vector<Buffer> buffers;
    Outputs outputs;

    Observation(const Batch& batch, nb::handle views, nb::handle selves) {
        const Py_ssize_t rows = batch.row_count(), view = batch.view();
        switch (batch.form()) {
            case ObservationForm::BYTES:
                buffers.emplace_back(views, "cells", Dtype::UINT8, Buffer::Shape{rows, view, view}, true);
                buffers.emplace_back(selves, "self", Dtype::UINT8, Buffer::Shape{rows, SELF_COUNT}, true);
                outputs.selves = buffers[1].as<std::uint8_t>();
                break;
            case ObservationForm::TOKENS:
                buffers.emplace_back(views, "tokens", Dtype::UINT8, Buffer::Shape{rows, batch.tokens(), 3}, true);
                break;
            case ObservationForm::BOX:
                buffers.emplace_back(views, "box", Dtype::UINT8, Buffer::Shape{rows, FEATURE_COUNT, view, view}, true);
                break;
        }
        outputs.views = buffers[0].as<std::uint8_t>();
    }
};

void reset(Batch& batch, const std::vector<int>& worlds, const std::vector<std::uint64_t>& seeds,
           const std::vector<int>& tasks, nb::handle views, nb::handle selves) {
    const Observation observation(batch, views, selves);
    const nb::gil_scoped_release without_gil;
    batch.reset(worlds, seeds, tasks, observation.outputs);
}

std::vector<int> step(Batch& batch, nb::handle actions, nb::handle views, nb::handle selves, nb::handle rewards) {
    const Py_ssize_t rows = batch.row_count();
    const Buffer action_buffer(actions, "actions", Dtype::INT64, {rows}, false);
    const Buffer reward_buffer(rewards, "rewards", Dtype::FLOAT32, {rows}, true);
    const Observation observation(batch, views, selves);
    const nb::gil_scoped_release without_gil;
    return batch.step(action_buffer.as<std::int64_t>(), observation.outputs, reward_buffer.as<float>());
}

// The arrays of a world's state, by name, kept alive.
struct StateArrays {
    std::vector<Buffer> buffers;
    WorldState state;

    StateArrays(const Plan& plan, const nb::dict& tables, bool is_output) {
        const Py_ssize_t agents = plan.agents, stations = plan.total_stations;
        state.walls = take<std::uint8_t>(tables, "walls", Dtype::UINT8, {plan.height, plan.width}, is_output);
        state.stations = take<std::int32_t>(tables, "stations", Dtype::INT32, {stations, STATION_COLUMNS}, is_output);
        state.agents = take<std::int32_t>(tables, "agents", Dtype::INT32, {agents, AGENT_COLUMNS}, is_output);
        state.inventories = take<std::int32_t>(tables, "inventories", Dtype::INT32, {agents, ITEM_COUNT}, is_output);
        state.accounts = take<std::int64_t>(tables, "accounts", Dtype::INT64, {agents, ITEM_COUNT}, is_output);
        state.counters = take<std::int64_t>(tables, "counters", Dtype::INT64, {agents, COUNTER_COUNT}, is_output);
        state.returns = take<double>(tables, "returns", Dtype::FLOAT64, {agents}, is_output);
    }

    template <typename T>
    T* take(const nb::dict& tables, const char* name, Dtype kind, const Buffer::Shape& shape, bool is_output) {
        if (!tables.contains(name)) {
            if (is_output) return nullptr;
            throw nb::value_error((std::string("the state of a world has no '") + name + "'").c_str());
        }
        buffers.emplace_back(nb::object(tables[name]), name, kind, shape, is_output);
        return buffers.back().template as<T>();
    }
};

nb::tuple shapes(const Batch& batch, int world) {
    const Plan& plan = *batch.world(world).plan;
    return nb::make_tuple(plan.height, plan.width, plan.total_stations);
}

// Fills the given arrays; returns (task, step, rng).
nb::tuple read(const Batch& batch, int world, const nb::dict& tables) {
    StateArrays held(*batch.world(world).plan, tables, true);
    save_state(batch.world(world), held.state);
    return nb::make_tuple(held.state.task, held.state.clock, held.state.rng);
}

// An entry of a saved world.
template <typename T>
T part(const nb::tuple& parts, std::size_t place, const char* name) {
    T value{};
    if (place >= parts.size() || !nb::try_cast<T>(parts[place], value)) {
        throw nb::value_error((std::string("the state of a world is damaged in its ") + name).c_str());
    }
    return value;
}

// One (task, step, rng, arrays) per world, or None for a world that was never reset.
void restore(Batch& batch, const nb::list& worlds) {
    std::vector<StateArrays> held;
    std::vector<std::optional<WorldState>> state;
    for (nb::handle world : worlds) {
        if (world.is_none()) {
            state.emplace_back();
            continue;
        }
        if (!nb::isinstance<nb::tuple>(world)) throw nb::type_error("a world is (task, step, rng, arrays), or None");
        const nb::tuple parts = nb::borrow<nb::tuple>(world);
        const int task = part<int>(parts, 0, "task");
        if (task < 0 || task >= batch.task_count()) throw std::out_of_range("there is no task " + std::to_string(task));
        held.emplace_back(batch.plan(task), part<nb::dict>(parts, 3, "tables"), false);
        held.back().state.task = task;
        held.back().state.clock = part<std::int64_t>(parts, 1, "step");
        held.back().state.rng = part<std::uint64_t>(parts, 2, "rng");
        state.emplace_back(held.back().state);
    }
    batch.restore(state);
}

// The capsule keeps the batch alive, and so everything that the struct points to.
nb::object step_api(nb::handle_t<Batch> batch) {
    struct OwningApi : BatchStepApi {
        explicit OwningApi(nb::handle_t<Batch> batch)
            : BatchStepApi(nb::cast<Batch&>(batch)), owner(nb::borrow(batch)) {}
        nb::object owner;
    };
    palaestra_batch_step_api* held = new OwningApi(batch);
    return nb::capsule(held, PALAESTRA_BATCH_STEP_API, [](void* api) noexcept {
        delete static_cast<OwningApi*>(static_cast<palaestra_batch_step_api*>(api));
    });
}

nb::dict tables() {
    nb::dict counts;
    counts["items"] = static_cast<int>(ITEM_COUNT);
    counts["stations"] = static_cast<int>(STATION_KINDS);
    counts["actions"] = static_cast<int>(ACTION_COUNT);
    counts["codes"] = static_cast<int>(CODE_COUNT);
    counts["self"] = static_cast<int>(SELF_COUNT);
    counts["features"] = static_cast<int>(FEATURE_COUNT);
    counts["counters"] = static_cast<int>(COUNTER_COUNT);
    return counts;
}

}  // namespace

NB_MODULE(native_core, module) {
    module.doc() = "Arena's worlds.";
    module.def("tables", &tables, "The number of items, stations, actions and so on; apps/arena/tables.py must agree.");
    nb::class_<Task>(module, "Task", "The fields of ArenaSettings as numbers; checked when a Batch is made.")
        .def(nb::init<>())
        .def_rw("agents", &Task::agents)
        .def_rw("teams", &Task::teams)
        .def_rw("team_share", &Task::team_share)
        .def_rw("width", &Task::width)
        .def_rw("height", &Task::height)
        .def_rw("room", &Task::room)
        .def_rw("walls", &Task::walls)
        .def_rw("inventory", &Task::inventory)
        .def_rw("limit", &Task::limit)
        .def_rw("rewards", &Task::rewards)
        .def_rw("reward_caps", &Task::reward_caps)
        .def_rw("combat", &Task::combat)
        .def_rw("reach", &Task::reach)
        .def_rw("freeze", &Task::freeze)
        .def_rw("steal", &Task::steal)
        .def_rw("view", &Task::view)
        .def_rw("sight", &Task::sight)
        .def_rw("show_state", &Task::show_state)
        .def_rw("tokens", &Task::tokens)
        .def_rw("max_steps", &Task::max_steps)
        .def_prop_rw(
            "form", [](const Task& task) { return static_cast<int>(task.form); },
            [](Task& task, int number) { task.form = observation_form_of(number); })
        .def("set_station", &set_station, "kind"_a, "count"_a, "cost"_a, "cooldown"_a, "stock"_a);
    nb::class_<Batch>(module, "Batch", "Many worlds; see NativeBatch.")
        .def(nb::init<const std::vector<Task>&, int, int>(), "tasks"_a, "world_count"_a, "threads"_a)
        .def("reset", &reset, "worlds"_a, "seeds"_a, "tasks"_a, "views"_a.none(), "selves"_a.none())
        .def("step", &step, "actions"_a.none(), "views"_a.none(), "selves"_a.none(), "rewards"_a.none())
        .def("has_world", &Batch::has_world, "world"_a)
        .def("shapes", &shapes, "world"_a)
        .def("read", &read, "world"_a, "tables"_a)
        .def("restore", &restore, "worlds"_a)
        .def("step_api", &step_api)
        .def("check", &Batch::check, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace arena
