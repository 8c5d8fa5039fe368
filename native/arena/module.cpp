// The door to Python: palaestra.apps.arena.core. Its words are those of core.pyi; NativeBatch gives them their manners.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "batch.hpp"
#include "buffers.hpp"
#include "doorway.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace arena {

namespace {

Form form_of(int number) {
    if (number < 0 || number > 2) throw std::invalid_argument("form must be 0 bytes, 1 tokens or 2 box");
    return static_cast<Form>(number);
}

void set_station(Task& task, int kind, int count, int cost, int cooldown, int stock) {
    if (kind < 0 || kind >= STATION_KINDS) throw std::out_of_range("there is no such kind of station");
    task.stations[kind] = {count, cost, cooldown, stock};
}

// The arrays of an observation, held while they are written; `selves` is None in the forms that have none.
struct Observation {
    std::vector<Buffer> buffers;
    Outputs outputs;

    Observation(const Batch& batch, nb::handle views, nb::handle selves) {
        const Py_ssize_t rows = batch.row_count(), view = batch.view();
        switch (batch.form()) {
            case Form::BYTES:
                buffers.emplace_back(views, "cells", Kind::UINT8, Buffer::Shape{rows, view, view}, true);
                buffers.emplace_back(selves, "self", Kind::UINT8, Buffer::Shape{rows, SELF_COUNT}, true);
                outputs.selves = buffers[1].as<std::uint8_t>();
                break;
            case Form::TOKENS:
                buffers.emplace_back(views, "tokens", Kind::UINT8, Buffer::Shape{rows, batch.tokens(), 3}, true);
                break;
            case Form::BOX:
                buffers.emplace_back(views, "box", Kind::UINT8, Buffer::Shape{rows, FEATURE_COUNT, view, view}, true);
                break;
        }
        outputs.views = buffers[0].as<std::uint8_t>();
    }
};

void reset(Batch& batch, const std::vector<int>& worlds, const std::vector<std::uint64_t>& seeds,
           const std::vector<int>& tasks, nb::handle views, nb::handle selves) {
    const Observation observation(batch, views, selves);
    const nb::gil_scoped_release others_may_run;
    batch.reset(worlds, seeds, tasks, observation.outputs);
}

std::vector<int> step(Batch& batch, nb::handle actions, nb::handle views, nb::handle selves, nb::handle rewards) {
    const Py_ssize_t rows = batch.row_count();
    const Buffer chosen(actions, "actions", Kind::INT64, {rows}, false);
    const Buffer paid(rewards, "rewards", Kind::FLOAT32, {rows}, true);
    const Observation observation(batch, views, selves);
    const nb::gil_scoped_release others_may_run;
    return batch.step(chosen.as<std::int64_t>(), observation.outputs, paid.as<float>());
}

// The tables of a world, by name, as Python made them; those that are there are held.
struct Tables {
    std::vector<Buffer> buffers;
    SavedWorld saved;

    Tables(const Plan& plan, const nb::dict& tables, bool is_written) {
        const Py_ssize_t agents = plan.agents, stations = plan.total_stations;
        saved.walls = take<std::uint8_t>(tables, "walls", Kind::UINT8, {plan.height, plan.width}, is_written);
        saved.stations = take<std::int32_t>(tables, "stations", Kind::INT32, {stations, STATION_COLUMNS}, is_written);
        saved.agents = take<std::int32_t>(tables, "agents", Kind::INT32, {agents, AGENT_COLUMNS}, is_written);
        saved.inventories = take<std::int32_t>(tables, "inventories", Kind::INT32, {agents, ITEM_COUNT}, is_written);
        saved.accounts = take<std::int64_t>(tables, "accounts", Kind::INT64, {agents, ITEM_COUNT}, is_written);
        saved.counters = take<std::int64_t>(tables, "counters", Kind::INT64, {agents, COUNTER_COUNT}, is_written);
        saved.returns = take<double>(tables, "returns", Kind::FLOAT64, {agents}, is_written);
    }

    template <typename T>
    T* take(const nb::dict& tables, const char* name, Kind kind, const Buffer::Shape& shape, bool is_written) {
        if (!tables.contains(name)) {
            if (is_written) return nullptr;
            throw nb::value_error((std::string("the state of a world has no '") + name + "'").c_str());
        }
        buffers.emplace_back(nb::object(tables[name]), name, kind, shape, is_written);
        return buffers.back().template as<T>();
    }
};

nb::tuple shapes(const Batch& batch, int world) {
    const Plan& plan = *batch.world(world).plan;
    return nb::make_tuple(plan.height, plan.width, plan.total_stations);
}

// Fills the given tables; returns (task, step, dice).
nb::tuple read(const Batch& batch, int world, const nb::dict& tables) {
    Tables held(*batch.world(world).plan, tables, true);
    save_world(batch.world(world), held.saved);
    return nb::make_tuple(held.saved.task, held.saved.clock, held.saved.dice);
}

// A part of a saved world; what is of another type, or too large a number, is told by name.
template <typename T>
T part(const nb::tuple& parts, std::size_t place, const char* name) {
    T value{};
    if (place >= parts.size() || !nb::try_cast<T>(parts[place], value)) {
        throw nb::value_error((std::string("the state of a world is damaged in its ") + name).c_str());
    }
    return value;
}

// One (task, step, dice, tables) per world, or None for a world that was never reset.
void restore(Batch& batch, const nb::list& worlds) {
    std::vector<Tables> held;
    std::vector<std::optional<SavedWorld>> saved;
    for (nb::handle world : worlds) {
        if (world.is_none()) {
            saved.emplace_back();
            continue;
        }
        if (!nb::isinstance<nb::tuple>(world)) throw nb::type_error("a world is (task, step, dice, tables), or None");
        const nb::tuple parts = nb::borrow<nb::tuple>(world);
        const int task = part<int>(parts, 0, "task");
        if (task < 0 || task >= batch.task_count()) throw std::out_of_range("there is no task " + std::to_string(task));
        held.emplace_back(batch.plan(task), part<nb::dict>(parts, 3, "tables"), false);
        held.back().saved.task = task;
        held.back().saved.clock = part<std::int64_t>(parts, 1, "step");
        held.back().saved.dice = part<std::uint64_t>(parts, 2, "dice");
        saved.emplace_back(held.back().saved);
    }
    batch.restore(saved);
}

// The capsule holds the batch, and with it everything that its struct points to.
nb::object door(nb::handle_t<Batch> batch) {
    struct Held : Doorway {
        explicit Held(nb::handle_t<Batch> batch) : Doorway(nb::cast<Batch&>(batch)), owner(nb::borrow(batch)) {}
        nb::object owner;
    };
    palaestra_batch_door* held = new Held(batch);
    return nb::capsule(held, PALAESTRA_BATCH_DOOR, [](void* door) noexcept {
        delete static_cast<Held*>(static_cast<palaestra_batch_door*>(door));
    });
}

nb::dict tables() {
    nb::dict words;
    words["items"] = static_cast<int>(ITEM_COUNT);
    words["stations"] = static_cast<int>(STATION_KINDS);
    words["actions"] = static_cast<int>(ACTION_COUNT);
    words["codes"] = static_cast<int>(CODE_COUNT);
    words["self"] = static_cast<int>(SELF_COUNT);
    words["features"] = static_cast<int>(FEATURE_COUNT);
    words["counters"] = static_cast<int>(COUNTER_COUNT);
    return words;
}

}  // namespace

NB_MODULE(core, module) {
    module.doc() = "Arena's worlds, compiled.";
    module.def("tables", &tables, "How many words of each kind there are; apps/arena/tables.py must say the same.");
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
            [](Task& task, int number) { task.form = form_of(number); })
        .def("set_station", &set_station, "kind"_a, "count"_a, "cost"_a, "cooldown"_a, "stock"_a);
    nb::class_<Batch>(module, "Batch", "Many worlds; see NativeBatch.")
        .def(nb::init<const std::vector<Task>&, int, int>(), "tasks"_a, "world_count"_a, "threads"_a)
        .def("reset", &reset, "worlds"_a, "seeds"_a, "tasks"_a, "views"_a.none(), "selves"_a.none())
        .def("step", &step, "actions"_a.none(), "views"_a.none(), "selves"_a.none(), "rewards"_a.none())
        .def("has_world", &Batch::has_world, "world"_a)
        .def("shapes", &shapes, "world"_a)
        .def("read", &read, "world"_a, "tables"_a)
        .def("restore", &restore, "worlds"_a)
        .def("door", &door)
        .def("check", &Batch::check, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace arena
