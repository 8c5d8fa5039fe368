// The door to Python: palaestra.training.engines.learner. Its words are those of learner.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "batch_module.hpp"
#include "held_learner.hpp"
#include "rank_module.hpp"
#include "worlds.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

// `parts` as Memories has them.
template <typename T>
std::vector<T*> memory_parts(HeldLearner& held, const std::vector<nb::object>& parts) {
    const Memories& memories = held.learner->memories();
    if (parts.size() != memories.part_count()) throw std::invalid_argument("a memory of other parts");
    std::vector<T*> places;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        auto cast = nb::cast<Array<T>>(parts[part], false);
        demand(cast, static_cast<std::size_t>(held.learner->recording().env_count) * memories.part_size(part), "memory");
        places.push_back(cast.data());
    }
    return places;
}

void take_memory(HeldLearner& held, const std::vector<nb::object>& parts) {
    held.learner->memories().take(memory_parts<const float>(held, parts));
}

void give_memory(HeldLearner& held, const std::vector<nb::object>& parts) {
    held.learner->memories().give(memory_parts<float>(held, parts));
}

void act(HeldLearner& held, int step) {
    const Recording& tape = held.learner->recording();
    if (step < 0 || step >= tape.horizon) throw std::out_of_range("there is no such step");
    const nb::gil_scoped_release others_may_run;
    held.learner->read(step, 0, tape.env_count);
    held.learner->act_all(step);
}

// What was last seen of episodes that were cut, in the order of `steps` and `envs`; `codes` for each table.
void judge(HeldLearner& held, nb::handle finals, const std::vector<int>& steps, const std::vector<int>& envs,
           const std::vector<nb::object>& codes) {
    const Reader& reader = held.learner->reader();
    const Recording& tape = held.learner->recording();
    const std::size_t count = steps.size() * held.cut_size;
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
    if (codes.size() != held.code_sizes.size()) throw std::invalid_argument("every table needs its codes");
    std::vector<const std::uint8_t*> code_rows;
    for (std::size_t table = 0; table < codes.size(); ++table) {
        const auto array = nb::cast<Array<const std::uint8_t>>(codes[table], false);
        demand(array, steps.size() * held.code_sizes[table], "codes");
        code_rows.push_back(array.data());
    }
    std::vector<Cut> cuts;
    for (std::size_t k = 0; k < steps.size(); ++k) {
        const bool is_inside = envs.size() == steps.size() && steps[k] >= 0 && steps[k] < tape.horizon &&
                               envs[k] >= 0 && envs[k] < tape.env_count;
        if (!is_inside) throw std::out_of_range("a cut outside the recording");
        cuts.push_back({steps[k], envs[k], std::vector<float>(held.learner->input_stride()),
                        held.learner->codes().read_other(code_rows, k)});
        if (!reader.read(rows, k, cuts.back().observation.data())) {
            throw std::out_of_range("an observation is none of its space's choices");
        }
    }
    const nb::gil_scoped_release others_may_run;
    held.learner->read(tape.horizon, 0, tape.env_count);
    held.learner->judge(cuts);
}

using EndedTuple = std::tuple<int, int, double, int, bool>;

std::vector<EndedTuple> play(Worlds& worlds, HeldLearner& held) {
    const Learner& learner = *held.learner;
    if (worlds.count() != learner.recording().env_count || learner.reader().kind != Input::REALS ||
        learner.reader().size != worlds.observation_size() || !learner.codes().is_empty() ||
        worlds.rules().takes_numbers() != (learner.recording().actions.numbers != nullptr)) {
        throw std::invalid_argument("these worlds do not fit the recording");
    }
    std::vector<Ended> ended;
    {
        const nb::gil_scoped_release others_may_run;
        ended = worlds.play(*held.learner);
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

double update(HeldLearner& held, nb::capsule generator, const UpdateRates& rates, Reducer* reducer) {
    if (std::strcmp(generator.name(), "BitGenerator")) throw std::invalid_argument("no generator of NumPy's");
    if (rates.minibatch_size < 1 || rates.epochs < 1) throw std::invalid_argument("sizes are counted from 1");
    if (rates.minibatch_size % held.learner->stretch()) throw std::invalid_argument("a minibatch of no whole stretches");
    const nb::gil_scoped_release others_may_run;
    return held.learner->update(*static_cast<const NumpyBits*>(generator.data()), rates, reducer);
}

// Whether none of them is infinite or no number: those have all bits of the exponent.
bool are_finite(const std::vector<Array<const float>>& arrays) {
    constexpr std::uint32_t EXPONENT = 0x7F800000;
    for (const auto& array : arrays) {
        const float* numbers = array.data();
        const std::size_t count = array.size();
        std::uint32_t found = 0;
        for (std::size_t k = 0; k < count; ++k) {
            std::uint32_t bits;
            std::memcpy(&bits, numbers + k, sizeof bits);
            found |= (bits & EXPONENT) == EXPONENT;
        }
        if (found) return false;
    }
    return true;
}

nb::dict stats(const HeldLearner& held) {
    const Learner& learner = *held.learner;
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
    module.def("are_finite", &are_finite, "arrays"_a);
    bind_ranks(module);
    nb::class_<UpdateRates>(module, "UpdateRates", "What an update is told.")
        .def(nb::init<>())
        .def_rw("gamma", &UpdateRates::gamma)
        .def_rw("gae_lambda", &UpdateRates::gae_lambda)
        .def_rw("epochs", &UpdateRates::epochs)
        .def_rw("minibatch_size", &UpdateRates::minibatch_size)
        .def_rw("target_divergence", &UpdateRates::target_divergence)
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
    nb::class_<HeldLearner>(module, "Learner", "See NativeEngine.")
        .def(nb::init<const std::vector<int>&, const std::vector<LayerTuple>&, int, int, int, const std::vector<int>&,
                      std::size_t, int, const std::vector<int>&, const std::vector<int>&, nb::dict, nb::dict,
                      nb::object, int, int, int, const std::string&, const std::vector<CellTuple>&, int,
                      const std::vector<TableTuple>&>(),
             nb::kw_only(), "sizes"_a, "layers"_a, "action_slot"_a, "value_slot"_a, "head"_a, "counts"_a, "log_std"_a,
             "input_code"_a, "input_counts"_a, "input_firsts"_a, "parameters"_a, "recording"_a, "normalizer"_a.none(),
             "horizon"_a, "env_count"_a, "threads"_a, "kernels"_a = "",
             "cells"_a = std::vector<CellTuple>(), "stretch"_a = 1, "tables"_a = std::vector<TableTuple>())
        .def("begin", [](HeldLearner& held, std::uint64_t seed, std::uint64_t iteration) { held.learner->begin(seed, iteration); },
             "seed"_a, "iteration"_a)
        .def("take_memory", &take_memory, "parts"_a)
        .def("give_memory", &give_memory, "parts"_a)
        .def("act", &act, "step"_a)
        .def("judge", &judge, "finals"_a, "steps"_a, "envs"_a, "codes"_a = std::vector<nb::object>())
        .def("update", &update, "generator"_a, "rates"_a, "reducer"_a.none() = nb::none())
        .def("stats", &stats)
        .def_prop_ro("kernels", [](const HeldLearner& held) { return std::string(held.learner->kernels_name()); });
    nb::class_<Worlds>(module, "Worlds", "See worlds.py.")
        .def("__init__", &make_worlds, "rules"_a, "constants"_a, "count"_a, "limit"_a)
        .def("get", &get_world, "index"_a)
        .def("set", &set_world, "index"_a, "world"_a)
        .def("step", &step, "actions"_a, "seen"_a.noconvert(), "rewards"_a.noconvert())
        .def("play", &play, "learner"_a);
    bind_batch(module);
}

}  // namespace engine
