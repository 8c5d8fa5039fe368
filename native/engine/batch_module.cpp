#include "batch_module.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "batch_play.hpp"
#include "held_learner.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;
using std::to_string;

constexpr int MOST_PARTS = 256;  // more in a door are no parts, but something that was read wrongly

void expect(bool holds, const std::string& otherwise) {
    if (!holds) throw nb::value_error(otherwise.c_str());
}

std::string quoted(const char* text) { return text ? "'" + std::string(text) + "'" : "nothing"; }

const palaestra_batch_door& door_in(nb::handle capsule) {
    const std::string wanted = std::string("a door is a PyCapsule named '") + PALAESTRA_BATCH_DOOR + "', and this is ";
    expect(PyCapsule_CheckExact(capsule.ptr()), wanted + nb::type_name(capsule.type()).c_str());
    if (!PyCapsule_IsValid(capsule.ptr(), PALAESTRA_BATCH_DOOR)) {
        const char* name = PyCapsule_GetName(capsule.ptr());
        PyErr_Clear();
        throw nb::value_error((wanted + "one named " + quoted(name)).c_str());
    }
    const auto* door = static_cast<const palaestra_batch_door*>(PyCapsule_GetPointer(capsule.ptr(), PALAESTRA_BATCH_DOOR));
    expect(door->version == PALAESTRA_BATCH_DOOR_VERSION,
           "it is of version " + to_string(door->version) + ", and this engine knows version " +
               to_string(PALAESTRA_BATCH_DOOR_VERSION));
    expect(door->begin && door->end && door->step, "one of begin, end and step is missing");
    return *door;
}

const palaestra_batch_door& door_for(nb::handle capsule, const Learner& learner) {
    const palaestra_batch_door& door = door_in(capsule);
    const std::int64_t rows = static_cast<std::int64_t>(door.world_count) * door.agents;
    expect(door.world_count >= 1 && door.agents >= 1 && rows == learner.recording().env_count,
           to_string(door.world_count) + " worlds of " + to_string(door.agents) + " agents are not the " +
               to_string(learner.recording().env_count) + " rows of the recording");
    expect(learner.recording().actions.choices && door.action_items == learner.action_parts(),
           "an action is told as " + to_string(door.action_items) + " choices, and the policy draws " +
               (learner.recording().actions.choices ? to_string(learner.action_parts()) + " choices" : "real numbers"));
    return door;
}

const char* dtype_of(const AnyArray& array) {
    if (array.dtype() == nb::dtype<std::uint8_t>()) return "uint8";
    if (array.dtype() == nb::dtype<std::int64_t>()) return "int64";
    return array.dtype() == nb::dtype<float>() ? "float32" : "another dtype";
}

SeenBlock block_of(const palaestra_batch_part& part, const nb::dict& blocks, std::size_t rows) {
    expect(part.name && part.dtype, "a part of its observations has no name or no dtype");
    const std::string name = "part " + quoted(part.name);
    expect(blocks.contains(part.name), name + " is none of the observation's");
    const AnyArray array = nb::cast<AnyArray>(blocks[part.name], false);
    expect(std::string(part.dtype) == dtype_of(array),
           name + " is told as " + part.dtype + ", and the recording has " + dtype_of(array));
    const std::size_t items = array.size() / rows;
    expect(array.size() % rows == 0 && part.items >= 0 && static_cast<std::size_t>(part.items) == items,
           name + " is told as " + to_string(part.items) + " items of a row, and the recording has " + to_string(items));
    return {static_cast<std::uint8_t*>(array.data()), items * array.itemsize()};
}

std::vector<SeenBlock> blocks_of(const palaestra_batch_door& door, const nb::dict& blocks, const Learner& learner) {
    const Recording& tape = learner.recording();
    const std::string have = to_string(nb::len(blocks));
    expect(door.parts && door.part_count >= 1 && door.part_count <= MOST_PARTS && to_string(door.part_count) == have,
           "its observations have " + to_string(door.part_count) + " parts, and the recording has " + have);
    std::vector<SeenBlock> places;
    for (int number = 0; number < door.part_count; ++number) {
        places.push_back(block_of(door.parts[number], blocks, tape.samples() + tape.env_count));
    }
    return places;
}

Learner& learner_of(nb::handle held) { return *nb::cast<HeldLearner&>(held).learner; }

// A play, and everything that must live as long.
struct HeldPlay {
    nb::object capsule, learner;
    std::vector<nb::object> arrays;
    BatchPlay play;

    HeldPlay(nb::object door, nb::handle_t<HeldLearner> held, const nb::dict& blocks)
        : capsule(door),
          learner(nb::borrow(held)),
          play(door_for(door, learner_of(held)), blocks_of(door_in(door), blocks, learner_of(held)), learner_of(held)) {
        for (const auto& [name, array] : blocks) arrays.push_back(nb::borrow(array));
    }
};

std::tuple<int, std::vector<int>> go_on(HeldPlay& held) {
    Stop stop;
    {
        const nb::gil_scoped_release others_may_run;
        stop = held.play.go_on();
    }
    return {stop.step, std::move(stop.worlds)};
}

}  // namespace

void bind_batch(nb::module_& module) {
    nb::class_<HeldPlay>(module, "BatchPlay", "See batch_rollout.py.")
        .def(nb::init<nb::object, nb::handle_t<HeldLearner>, const nb::dict&>(), "door"_a, "learner"_a, "blocks"_a)
        .def("begin", [](HeldPlay& held) { held.play.begin(); })
        .def("go_on", &go_on);
}

}  // namespace engine
