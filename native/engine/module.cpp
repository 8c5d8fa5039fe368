// The door to Python: palaestra.training.engines.learner. Its words are those of learner.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "told.hpp"
#include "worlds.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using Floats1 = Array<float>;

template <typename A>
void demand(const A& array, std::size_t count, const char* name) {
    if (array.size() != count) {
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.size()) + " entries, not " +
                                    std::to_string(count));
    }
}

// A learner and the arrays that it writes to, which must live as long.
struct Door {
    std::unique_ptr<Learner> learner;
    std::vector<nb::object> held;
    std::size_t cut_size = 0;
    std::vector<std::size_t> code_sizes;  // of each table

    template <typename T>
    T* hold(nb::handle array, std::size_t count, const char* name) {
        auto cast = nb::cast<Array<T>>(array, false);
        demand(cast, count, name);
        held.push_back(nb::borrow(array));
        return cast.data();
    }

    void hold_codes(const Plan& plan, const nb::dict& recording, std::size_t rows, Recording& tape);

    Door(const std::vector<int>& sizes, const std::vector<LayerTuple>& layers, int action_slot, int value_slot,
         int head, const std::vector<int>& counts, std::size_t log_std, int input, const std::vector<int>& input_counts,
         const std::vector<int>& input_firsts, nb::dict parameters, nb::dict recording, nb::object normalizer,
         int horizon, int env_count, int threads, const std::string& kernels, const std::vector<CellTuple>& cells,
         int stretch, const std::vector<TableTuple>& tables);
};

void Door::hold_codes(const Plan& plan, const nb::dict& recording, std::size_t rows, Recording& tape) {
    if (!plan.table_count) return;
    const nb::list arrays = nb::cast<nb::list>(recording["codes"]);
    if (static_cast<int>(nb::len(arrays)) != plan.table_count) throw std::invalid_argument("every table needs its codes");
    for (int number = 0; number < plan.table_count; ++number) {
        tape.codes.push_back(hold<std::uint8_t>(arrays[number], rows * plan.tables[number].cells, "codes"));
        code_sizes.push_back(plan.tables[number].cells);
    }
}

Door::Door(const std::vector<int>& sizes, const std::vector<LayerTuple>& layers, int action_slot, int value_slot,
           int head, const std::vector<int>& counts, std::size_t log_std, int input,
           const std::vector<int>& input_counts, const std::vector<int>& input_firsts, nb::dict parameters,
           nb::dict recording, nb::object normalizer, int horizon, int env_count, int threads,
           const std::string& kernels, const std::vector<CellTuple>& cells, int stretch,
           const std::vector<TableTuple>& tables) {
    if (horizon < 1 || env_count < 1 || threads < 1 || stretch < 1) {
        throw std::invalid_argument("sizes are counted from 1");
    }
    if (horizon % stretch || (cells.empty() && stretch > 1)) throw std::invalid_argument("stretches do not fit");
    const Kernels* chosen = kernels_called(kernels.c_str());
    if (!chosen) throw std::invalid_argument("this processor cannot run '" + kernels + "'");
    const std::size_t count = nb::cast<Floats1>(parameters["values"]).size();
    Parameters own{count,
                   hold<float>(parameters["values"], count, "values"),
                   hold<float>(parameters["gradient"], count, "gradient"),
                   hold<float>(parameters["mean"], count, "mean"),
                   hold<float>(parameters["spread"], count, "spread"),
                   hold<float>(parameters["step_count"], 1, "step_count")};
    auto network = std::make_unique<Network>(sizes, layers_of(tables, layers), tables_of(tables), cells_of(cells), count,
                                             action_slot, value_slot, Cutting(!cells.empty(), stretch).rows(), *chosen);
    HeadPlan head_plan = head_of(head, counts, log_std, count);
    Reader reader = reader_of(input, input_counts, input_firsts, sizes.at(0));
    if (!normalizer.is_none()) {
        const nb::tuple parts = nb::cast<nb::tuple>(normalizer);
        reader.shift = hold<float>(parts[0], sizes[0], "shift");
        reader.scale = hold<float>(parts[1], sizes[0], "scale");
        reader.limit = nb::cast<float>(parts[2]);
        if (reader.kind != Input::REALS) throw std::invalid_argument("only real numbers are normalised");
    }
    const std::size_t samples = static_cast<std::size_t>(horizon) * env_count, rows = samples + env_count;
    Recording tape{};
    tape.horizon = horizon;
    tape.env_count = env_count;
    cut_size = reader.parts();
    switch (reader.kind) {
        case Input::REALS:
            tape.observations = hold<float>(recording["observations"], rows * cut_size, "observations");
            break;
        case Input::BYTES:
            tape.observations = hold<std::uint8_t>(recording["observations"], rows * cut_size, "observations");
            break;
        case Input::CHOICES:
            tape.observations = hold<std::int64_t>(recording["observations"], rows * cut_size, "observations");
            break;
    }
    hold_codes(network->plan(), recording, rows, tape);
    tape.rewards = hold<float>(recording["rewards"], samples, "rewards");
    tape.starts = hold<bool>(recording["starts"], rows, "starts");
    tape.terminated = hold<bool>(recording["terminated"], samples, "terminated");
    const std::size_t parts = samples * head_plan.parts();
    if (head_plan.kind == Head::NORMAL) {
        tape.actions.numbers = hold<float>(recording["actions"], parts, "actions");
    } else {
        tape.actions.choices = hold<std::int64_t>(recording["actions"], parts, "actions");
    }
    tape.log_probs = hold<float>(recording["log_probs"], samples, "log_probs");
    tape.values = hold<float>(recording["values"], samples, "values");
    tape.next_values = hold<float>(recording["next_values"], samples, "next_values");
    tape.advantages = hold<float>(recording["advantages"], samples, "advantages");
    tape.returns = hold<float>(recording["returns"], samples, "returns");
    learner = std::make_unique<Learner>(std::move(network), std::move(head_plan), std::move(reader), own, tape,
                                        stretch, threads);
}

// `parts` as Memories has them.
template <typename T>
std::vector<T*> memory_parts(Door& door, const std::vector<nb::object>& parts) {
    const Memories& memories = door.learner->memories();
    if (parts.size() != memories.part_count()) throw std::invalid_argument("a memory of other parts");
    std::vector<T*> places;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        auto cast = nb::cast<Array<T>>(parts[part], false);
        demand(cast, static_cast<std::size_t>(door.learner->recording().env_count) * memories.part_size(part), "memory");
        places.push_back(cast.data());
    }
    return places;
}

void take_memory(Door& door, const std::vector<nb::object>& parts) {
    door.learner->memories().take(memory_parts<const float>(door, parts));
}

void give_memory(Door& door, const std::vector<nb::object>& parts) {
    door.learner->memories().give(memory_parts<float>(door, parts));
}

void act(Door& door, int step) {
    const Recording& tape = door.learner->recording();
    if (step < 0 || step >= tape.horizon) throw std::out_of_range("there is no such step");
    const nb::gil_scoped_release others_may_run;
    door.learner->read(step, 0, tape.env_count);
    door.learner->act_all(step);
}

// What was last seen of episodes that were cut, in the order of `steps` and `envs`; `codes` for each table.
void judge(Door& door, nb::handle finals, const std::vector<int>& steps, const std::vector<int>& envs,
           const std::vector<nb::object>& codes) {
    const Reader& reader = door.learner->reader();
    const Recording& tape = door.learner->recording();
    const std::size_t count = steps.size() * door.cut_size;
    const void* rows = nullptr;
    nb::object kept;
    const auto take = [&](auto array) {
        demand(array, count, "finals");
        kept = nb::borrow(finals);
        rows = array.data();
    };
    if (reader.kind == Input::REALS) take(nb::cast<Array<const float>>(finals, false));
    if (reader.kind == Input::BYTES) take(nb::cast<Array<const std::uint8_t>>(finals, false));
    if (reader.kind == Input::CHOICES) take(nb::cast<Array<const std::int64_t>>(finals, false));
    if (codes.size() != door.code_sizes.size()) throw std::invalid_argument("every table needs its codes");
    std::vector<const std::uint8_t*> code_rows;
    for (std::size_t table = 0; table < codes.size(); ++table) {
        const auto array = nb::cast<Array<const std::uint8_t>>(codes[table], false);
        demand(array, steps.size() * door.code_sizes[table], "codes");
        code_rows.push_back(array.data());
    }
    std::vector<Cut> cuts;
    for (std::size_t k = 0; k < steps.size(); ++k) {
        const bool is_inside = envs.size() == steps.size() && steps[k] >= 0 && steps[k] < tape.horizon &&
                               envs[k] >= 0 && envs[k] < tape.env_count;
        if (!is_inside) throw std::out_of_range("a cut outside the recording");
        cuts.push_back({steps[k], envs[k], std::vector<float>(door.learner->input_stride()),
                        door.learner->codes().read_other(code_rows, k)});
        if (!reader.read(rows, k, cuts.back().observation.data())) {
            throw std::out_of_range("an observation is none of its space's choices");
        }
    }
    const nb::gil_scoped_release others_may_run;
    door.learner->read(tape.horizon, 0, tape.env_count);
    door.learner->judge(cuts);
}

using EndedTuple = std::tuple<int, int, double, int, bool>;

std::vector<EndedTuple> play(Worlds& worlds, Door& door) {
    const Learner& learner = *door.learner;
    if (worlds.count() != learner.recording().env_count || learner.reader().kind != Input::REALS ||
        learner.reader().size != worlds.observation_size() || !learner.codes().is_empty() ||
        worlds.rules().takes_numbers() != (learner.recording().actions.numbers != nullptr)) {
        throw std::invalid_argument("these worlds do not fit the recording");
    }
    std::vector<Ended> ended;
    {
        const nb::gil_scoped_release others_may_run;
        ended = worlds.play(*door.learner);
    }
    std::vector<EndedTuple> tuples;
    for (const Ended& one : ended) tuples.emplace_back(one.step, one.env, one.total_reward, one.length, one.terminated);
    return tuples;
}

using LandedTuple = std::tuple<int, double, int, bool, std::vector<float>>;

// One step of all worlds, for whoever draws the actions himself: `choices` [B], or `numbers` [B, parts].
std::vector<LandedTuple> step(Worlds& worlds, nb::handle actions, Array<float> seen, Array<float> rewards) {
    const std::size_t count = worlds.count(), size = worlds.observation_size();
    demand(seen, count * size, "seen");
    demand(rewards, count, "rewards");
    const std::int64_t* choices = nullptr;
    const float* numbers = nullptr;
    std::size_t parts = 0;
    if (!worlds.rules().takes_numbers()) {
        auto whole = nb::cast<Array<const std::int64_t>>(actions, false);  // as it is: a copy would be gone below
        demand(whole, count, "actions");
        choices = whole.data();
    } else {
        auto real = nb::cast<Array<const float>>(actions, false);
        parts = real.size() / count;
        if (!parts) throw std::invalid_argument("there are fewer actions than worlds");
        numbers = real.data();
    }
    std::vector<LandedTuple> landed;
    for (std::size_t env = 0; env < count; ++env) {
        const Action action = {choices ? choices[env] : 0, numbers ? numbers + env * parts : nullptr};
        Ended ended;
        float last_seen[MAX_OBSERVATION];
        if (!worlds.advance(static_cast<int>(env), action, seen.data() + env * size, rewards.data() + env, ended, last_seen)) {
            continue;
        }
        landed.emplace_back(ended.env, ended.total_reward, ended.length, ended.terminated,
                            std::vector<float>(last_seen, last_seen + size));
    }
    return landed;
}

std::tuple<double, double> epoch(Door& door, Array<const std::int64_t> order, int minibatch_size,
                                 const UpdateRates& rates) {
    const std::size_t columns = door.learner->columns();
    demand(order, columns, "order");
    const std::int64_t* first = order.data();
    if (minibatch_size < 1 || std::any_of(first, first + columns, [&](std::int64_t column) {
            return column < 0 || column >= static_cast<std::int64_t>(columns);
        })) {
        throw std::out_of_range("the order names samples that are not there");
    }
    if (minibatch_size % door.learner->stretch()) throw std::invalid_argument("a minibatch of no whole stretches");
    const nb::gil_scoped_release others_may_run;
    const EpochResult result = door.learner->epoch(first, minibatch_size, rates);
    return {result.norm, result.divergence};
}

nb::dict stats(const Door& door) {
    const Learner& learner = *door.learner;
    const LossSums& sums = learner.sums();
    const double samples = static_cast<double>(learner.samples_learned());
    nb::dict named;
    named["policy_loss"] = -sums.objective / samples;
    named["value_loss"] = 0.5 * sums.squared_error / samples;
    named["entropy"] = sums.entropy / samples;
    named["old_approx_kl"] = -sums.log_ratio / samples;
    named["approx_kl"] = sums.divergence / samples;
    named["clipfrac"] = sums.clipped / samples;
    named["explained_variance"] = explained_variance(learner.recording());
    named["grad_norm"] = learner.norm_sum() / learner.minibatches();
    named["minibatches"] = learner.minibatches();
    return named;
}

using WorldTuple =
    std::tuple<std::vector<double>, std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>, double, int, int>;

WorldTuple get_world(Worlds& worlds, int index) {
    const World& world = worlds.at(index);
    const auto high = [](Pcg64::Wide wide) { return static_cast<std::uint64_t>(wide >> 64); };
    const auto low = [](Pcg64::Wide wide) { return static_cast<std::uint64_t>(wide); };
    return {std::vector<double>(world.state, world.state + worlds.state_size()),
            {high(world.dice.state), low(world.dice.state), high(world.dice.increment), low(world.dice.increment)},
            world.total_reward,
            world.length,
            world.elapsed};
}

void set_world(Worlds& worlds, int index, const WorldTuple& saved) {
    const auto& [state, dice, total_reward, length, elapsed] = saved;
    if (static_cast<int>(state.size()) != worlds.state_size()) throw std::invalid_argument("a state of another size");
    World& world = worlds.at(index);
    std::copy(state.begin(), state.end(), world.state);
    const auto wide = [](std::uint64_t high, std::uint64_t low) { return (static_cast<Pcg64::Wide>(high) << 64) | low; };
    world.dice.state = wide(std::get<0>(dice), std::get<1>(dice));
    world.dice.increment = wide(std::get<2>(dice), std::get<3>(dice));
    world.total_reward = total_reward;
    world.length = length;
    world.elapsed = elapsed;
}

void make_worlds(Worlds* place, const std::string& rules, const std::map<std::string, double>& constants, int count,
                 int limit) {
    new (place) Worlds(rules_called(rules, constants), count, limit);
}

// out[t] = gamma * out[t - 1] + rewards[t], begun anew after an end; `running` [B] is what to go on with.
void discounted_sums(Array<const float> rewards, Array<const bool> ended, Array<float> running, float gamma,
                     Array<float> out) {
    const std::size_t envs = running.size(), samples = rewards.size();
    demand(ended, samples, "ended");
    demand(out, samples, "out");
    if (envs == 0 || samples % envs) throw std::invalid_argument("rewards are not whole rows of environments");
    for (std::size_t k = 0; k < samples; ++k) {
        float& sum = running.data()[k % envs];
        sum = sum * gamma + rewards.data()[k];
        out.data()[k] = sum;
        if (ended.data()[k]) sum = 0;
    }
}

std::vector<std::string> kernel_names() {
    std::vector<std::string> names;
    for (const char* name : {"x86-64-v4", "x86-64-v3", "plain"}) {
        if (kernels_called(name)) names.emplace_back(name);
    }
    return names;
}

}  // namespace

NB_MODULE(learner, module) {
    module.doc() = "PPO for networks of linear layers and cells, compiled.";
    module.def("kernel_names", &kernel_names, "Those that this processor can run, best first.");
    module.def("discounted_sums", &discounted_sums, "rewards"_a, "ended"_a, "running"_a, "gamma"_a, "out"_a);
    nb::class_<UpdateRates>(module, "UpdateRates", "What an epoch is told.")
        .def(nb::init<>())
        .def_prop_rw("clip", [](const UpdateRates& r) { return r.loss.clip; }, [](UpdateRates& r, float v) { r.loss.clip = v; })
        .def_prop_rw("clip_value", [](const UpdateRates& r) { return r.loss.clips_value; }, [](UpdateRates& r, bool v) { r.loss.clips_value = v; })
        .def_prop_rw("value", [](const UpdateRates& r) { return r.loss.value; }, [](UpdateRates& r, float v) { r.loss.value = v; })
        .def_prop_rw("entropy", [](const UpdateRates& r) { return r.loss.entropy; }, [](UpdateRates& r, float v) { r.loss.entropy = v; })
        .def_rw("normalize_advantages", &UpdateRates::normalize_advantages)
        .def_rw("max_grad_norm", &UpdateRates::max_grad_norm)
        .def_rw("learning_rate", &UpdateRates::learning_rate)
        .def_rw("beta1", &UpdateRates::beta1)
        .def_rw("beta2", &UpdateRates::beta2)
        .def_rw("epsilon", &UpdateRates::epsilon)
        .def_rw("weight_decay", &UpdateRates::weight_decay);
    nb::class_<Door>(module, "Learner", "See NativeEngine.")
        .def(nb::init<const std::vector<int>&, const std::vector<LayerTuple>&, int, int, int, const std::vector<int>&,
                      std::size_t, int, const std::vector<int>&, const std::vector<int>&, nb::dict, nb::dict,
                      nb::object, int, int, int, const std::string&, const std::vector<CellTuple>&, int,
                      const std::vector<TableTuple>&>(),
             nb::kw_only(), "sizes"_a, "layers"_a, "action_slot"_a, "value_slot"_a, "head"_a, "counts"_a, "log_std"_a,
             "input_code"_a, "input_counts"_a, "input_firsts"_a, "parameters"_a, "recording"_a, "normalizer"_a.none(),
             "horizon"_a, "env_count"_a, "threads"_a, "kernels"_a = "",
             "cells"_a = std::vector<CellTuple>(), "stretch"_a = 1, "tables"_a = std::vector<TableTuple>())
        .def("begin", [](Door& door, std::uint64_t seed, std::uint64_t iteration) { door.learner->begin(seed, iteration); },
             "seed"_a, "iteration"_a)
        .def("take_memory", &take_memory, "parts"_a)
        .def("give_memory", &give_memory, "parts"_a)
        .def("act", &act, "step"_a)
        .def("judge", &judge, "finals"_a, "steps"_a, "envs"_a, "codes"_a = std::vector<nb::object>())
        .def("estimate", [](Door& door, float gamma, float gae_lambda) { door.learner->estimate(gamma, gae_lambda); },
             "gamma"_a, "gae_lambda"_a)
        .def("begin_update", [](Door& door) { door.learner->begin_update(); })
        .def("epoch", &epoch, "order"_a, "minibatch_size"_a, "rates"_a)
        .def("stats", &stats)
        .def_prop_ro("kernels", [](const Door& door) { return std::string(door.learner->kernels_name()); });
    nb::class_<Worlds>(module, "Worlds", "See worlds.py.")
        .def("__init__", &make_worlds, "rules"_a, "constants"_a, "count"_a, "limit"_a)
        .def("get", &get_world, "index"_a)
        .def("set", &set_world, "index"_a, "world"_a)
        .def("step", &step, "actions"_a, "seen"_a.noconvert(), "rewards"_a.noconvert())
        .def("play", &play, "learner"_a);
}

}  // namespace engine
