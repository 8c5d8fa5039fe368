// The extension module palaestra.training.engines.native_learner: the learner. See native_learner.pyi for the Python
// side.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bindings.hpp"
#include "plan_reader.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

Parameters read_parameters(KeptArrays& owner, const nb::dict& arrays) {
    const std::size_t count = nb::cast<Array<float>>(arrays["values"]).size();
    return {count,
            owner.keep<float>(arrays["values"], count, "values"),
            owner.keep<float>(arrays["gradient"], count, "gradient"),
            owner.keep<float>(arrays["exp_avg"], count, "exp_avg"),
            owner.keep<float>(arrays["exp_avg_sq"], count, "exp_avg_sq"),
            owner.keep<float>(arrays["step_count"], 1, "step_count")};
}

void read_normalizer(KeptArrays& owner, nb::handle normalizer, ObservationReader& reader) {
    if (normalizer.is_none()) return;
    if (reader.kind != InputKind::FLOATS) throw std::invalid_argument("only float observations can be normalized");
    reader.shift = owner.keep<float>(normalizer.attr("shift"), reader.size, "shift");
    reader.scale = owner.keep<float>(normalizer.attr("scale"), reader.size, "scale");
    reader.limit = nb::cast<float>(normalizer.attr("limit"));
}

namespace {

using std::to_string;

void check_sizes(int horizon, int env_count, int threads, int segment_length, bool has_cells) {
    const std::pair<const char*, int> sizes[] = {
        {"horizon", horizon}, {"env_count", env_count}, {"threads", threads}, {"segment_length", segment_length}};
    for (const auto& [name, size] : sizes) {
        if (size < 1) throw std::invalid_argument(std::string(name) + "=" + to_string(size) + " must be at least 1");
    }
    if (horizon % segment_length) {
        throw std::invalid_argument("horizon=" + to_string(horizon) +
                                    " is not a multiple of segment_length=" + to_string(segment_length));
    }
    if (!has_cells && segment_length > 1) throw std::invalid_argument("segment_length needs a recurrent network");
}

void read_codes(PyLearner& owner, const NetworkLayout& layout, const nb::dict& arrays, std::size_t rows,
                RolloutBuffer& buffer) {
    if (!layout.table_count) return;
    const nb::list codes = nb::cast<nb::list>(arrays["codes"]);
    if (static_cast<int>(nb::len(codes)) != layout.table_count) {
        throw std::invalid_argument(to_string(layout.table_count) + " tables need as many arrays of codes, not " +
                                    to_string(nb::len(codes)));
    }
    for (int number = 0; number < layout.table_count; ++number) {
        const std::size_t cells = layout.tables[number].cells;
        buffer.codes.push_back(owner.keep<std::uint8_t>(codes[number], rows * cells, "codes"));
        owner.code_items.push_back(cells);
    }
}

const void* read_observations(PyLearner& owner, nb::handle array, const ObservationReader& reader, std::size_t count) {
    switch (reader.kind) {
        case InputKind::FLOATS: return owner.keep<float>(array, count, "observations");
        case InputKind::BYTES: return owner.keep<std::uint8_t>(array, count, "observations");
        case InputKind::CATEGORICAL: return owner.keep<std::int64_t>(array, count, "observations");
    }
    return nullptr;
}

RolloutBuffer read_buffer(PyLearner& owner, const nb::dict& arrays, int horizon, int env_count,
                          const ObservationReader& reader, const HeadPlan& head, const NetworkLayout& layout) {
    const std::size_t samples = static_cast<std::size_t>(horizon) * env_count, rows = samples + env_count;
    RolloutBuffer buffer{};
    buffer.horizon = horizon;
    buffer.env_count = env_count;
    owner.observation_items = reader.parts();
    buffer.observations = read_observations(owner, arrays["observations"], reader, rows * owner.observation_items);
    read_codes(owner, layout, arrays, rows, buffer);
    buffer.rewards = owner.keep<float>(arrays["rewards"], samples, "rewards");
    buffer.starts = owner.keep<bool>(arrays["starts"], rows, "starts");
    buffer.terminated = owner.keep<bool>(arrays["terminated"], samples, "terminated");
    const std::size_t parts = samples * head.parts();
    if (head.kind == HeadKind::GAUSSIAN) {
        buffer.actions.continuous = owner.keep<float>(arrays["actions"], parts, "actions");
    } else {
        buffer.actions.discrete = owner.keep<std::int64_t>(arrays["actions"], parts, "actions");
    }
    buffer.log_probs = owner.keep<float>(arrays["log_probs"], samples, "log_probs");
    buffer.values = owner.keep<float>(arrays["values"], samples, "values");
    buffer.next_values = owner.keep<float>(arrays["next_values"], samples, "next_values");
    buffer.advantages = owner.keep<float>(arrays["advantages"], samples, "advantages");
    buffer.returns = owner.keep<float>(arrays["returns"], samples, "returns");
    return buffer;
}

void make_learner(PyLearner* place, nb::handle network_plan, nb::handle head_plan, nb::handle input_plan,
                  const nb::dict& parameters, const nb::dict& buffer, nb::handle normalizer, int horizon, int env_count,
                  int threads, int segment_length, const std::string& kernel_name) {
    PyLearner owner;
    NetworkPlan plan = read_network_plan(network_plan);
    const bool has_cells = !plan.cells.empty();
    check_sizes(horizon, env_count, threads, segment_length, has_cells);
    const Kernels* kernels = find_kernels(kernel_name.c_str());
    if (!kernels) throw std::invalid_argument("this CPU cannot run the kernels '" + kernel_name + "'");
    const Parameters own = read_parameters(owner, parameters);
    auto network = std::make_unique<Network>(std::move(plan), own.count,
                                             MinibatchSplit(has_cells, segment_length).rows(), *kernels);
    HeadPlan head = read_head_plan(head_plan, read_log_std_offset(network_plan), own.count);
    ObservationReader reader = read_input_plan(input_plan);
    read_normalizer(owner, normalizer, reader);
    RolloutBuffer rollout = read_buffer(owner, buffer, horizon, env_count, reader, head, network->layout());
    owner.learner = std::make_unique<Learner>(std::move(network), std::move(head), std::move(reader), own,
                                              std::move(rollout), segment_length, threads);
    new (place) PyLearner(std::move(owner));
}

// `parts`: as RecurrentState has them.
template <typename T>
std::vector<T*> recurrent_parts(PyLearner& owner, const std::vector<nb::object>& parts) {
    const RecurrentState& state = owner.learner->recurrent_state();
    if (parts.size() != state.part_count()) {
        throw std::invalid_argument("the recurrent state has " + to_string(state.part_count()) + " parts, not " +
                                    to_string(parts.size()));
    }
    std::vector<T*> data;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        auto cast = nb::cast<Array<T>>(parts[part], false);
        check_size(cast, static_cast<std::size_t>(owner.learner->buffer().env_count) * state.part_size(part), "memory");
        data.push_back(cast.data());
    }
    return data;
}

void load_memory(PyLearner& owner, const std::vector<nb::object>& parts) {
    owner.learner->recurrent_state().load(recurrent_parts<const float>(owner, parts));
}

void store_memory(PyLearner& owner, const std::vector<nb::object>& parts) {
    owner.learner->recurrent_state().store(recurrent_parts<float>(owner, parts));
}

void act(PyLearner& owner, int step) {
    const RolloutBuffer& buffer = owner.learner->buffer();
    if (step < 0 || step >= buffer.horizon) {
        throw std::out_of_range("step " + to_string(step) + " is not from 0 to " + to_string(buffer.horizon - 1));
    }
    const nb::gil_scoped_release without_gil;
    owner.learner->read_observations(step, 0, buffer.env_count);
    owner.learner->act_all(step);
}

template <typename T>
const void* data_of(nb::handle array, std::size_t count) {
    const auto cast = nb::cast<Array<const T>>(array, false);
    check_size(cast, count, "final_observations");
    return cast.data();
}

const void* final_observation_data(nb::handle array, InputKind kind, std::size_t count) {
    switch (kind) {
        case InputKind::FLOATS: return data_of<float>(array, count);
        case InputKind::BYTES: return data_of<std::uint8_t>(array, count);
        case InputKind::CATEGORICAL: return data_of<std::int64_t>(array, count);
    }
    return nullptr;
}

void evaluate_values(PyLearner& owner, nb::handle final_observations, const std::vector<int>& steps,
                     const std::vector<int>& envs, const std::vector<nb::object>& codes) {
    const ObservationReader& reader = owner.learner->reader();
    const RolloutBuffer& buffer = owner.learner->buffer();
    const void* rows = final_observation_data(final_observations, reader.kind, steps.size() * owner.observation_items);
    if (codes.size() != owner.code_items.size()) {
        throw std::invalid_argument(to_string(owner.code_items.size()) + " tables need as many arrays of codes, not " +
                                    to_string(codes.size()));
    }
    std::vector<const std::uint8_t*> code_rows;
    for (std::size_t table = 0; table < codes.size(); ++table) {
        const auto array = nb::cast<Array<const std::uint8_t>>(codes[table], false);
        check_size(array, steps.size() * owner.code_items[table], "codes");
        code_rows.push_back(array.data());
    }
    if (envs.size() != steps.size()) throw std::invalid_argument("steps and envs have different lengths");
    std::vector<Truncation> truncations;
    for (std::size_t k = 0; k < steps.size(); ++k) {
        if (steps[k] < 0 || steps[k] >= buffer.horizon || envs[k] < 0 || envs[k] >= buffer.env_count) {
            throw std::out_of_range("step " + to_string(steps[k]) + " of environment " + to_string(envs[k]) +
                                    " is outside the rollout");
        }
        truncations.push_back({steps[k], envs[k], std::vector<float>(owner.learner->input_stride()),
                               owner.learner->codes().read_final(code_rows, k)});
        if (!reader.read(rows, k, truncations.back().observation.data())) {
            throw std::out_of_range("a final observation is not one of its space's categories");
        }
    }
    const nb::gil_scoped_release without_gil;
    owner.learner->read_observations(buffer.horizon, 0, buffer.env_count);
    owner.learner->evaluate_values(truncations);
}

double update(PyLearner& owner, const nb::capsule& generator, const UpdateConfig& config, Reducer* reducer) {
    if (std::strcmp(generator.name(), "BitGenerator")) {
        throw std::invalid_argument(std::string("generator is a capsule named '") + generator.name() +
                                    "', not a NumPy 'BitGenerator'");
    }
    if (config.minibatch_size < 1 || config.epochs < 1) {
        throw std::invalid_argument("minibatch_size=" + to_string(config.minibatch_size) +
                                    " and epochs=" + to_string(config.epochs) + " must be at least 1");
    }
    if (config.minibatch_size % owner.learner->segment_length()) {
        throw std::invalid_argument(
            "minibatch_size=" + to_string(config.minibatch_size) +
            " is not a multiple of segment_length=" + to_string(owner.learner->segment_length()));
    }
    const nb::gil_scoped_release without_gil;
    return owner.learner->update(*static_cast<const NumpyBitGenerator*>(generator.data()), config, reducer);
}

nb::dict stats(const PyLearner& owner) {
    const Learner& learner = *owner.learner;
    const LossSums& sums = learner.sums();
    const double samples = static_cast<double>(learner.samples_learned());
    nb::dict named;
    named["policy_loss"] = -sums.objective / samples;
    named["value_loss"] = 0.5 * sums.squared_error / samples;
    named["entropy"] = sums.entropy / samples;
    named["old_approx_kl"] = -sums.log_ratio / samples;
    named["approx_kl"] = sums.approx_kl / samples;
    named["clipfrac"] = sums.clip_count / samples;
    named["explained_variance"] = explained_variance(learner.buffer());
    named["grad_norm"] = learner.norm_sum() / learner.minibatches();
    named["minibatches"] = learner.minibatches();
    return named;
}

// Whether all numbers are finite: infinities and NaNs have all bits of the exponent set.
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

// out[t] = gamma * out[t - 1] + rewards[t], reset after an episode end; `running` [B] carries over between calls.
void discounted_sums(Array<const float> rewards, Array<const bool> ended, Array<float> running, float gamma,
                     Array<float> out) {
    const std::size_t envs = running.size(), samples = rewards.size();
    check_size(ended, samples, "ended");
    check_size(out, samples, "out");
    if (envs == 0 || samples % envs) {
        throw std::invalid_argument("rewards has " + to_string(samples) + " entries, not a multiple of " +
                                    to_string(envs));
    }
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
        if (find_kernels(name)) names.emplace_back(name);
    }
    return names;
}

void bind_update_config(nb::module_& module) {
    nb::class_<UpdateConfig>(module, "UpdateConfig")
        .def(nb::init<>())
        .def_rw("gamma", &UpdateConfig::gamma)
        .def_rw("gae_lambda", &UpdateConfig::gae_lambda)
        .def_rw("epochs", &UpdateConfig::epochs)
        .def_rw("minibatch_size", &UpdateConfig::minibatch_size)
        .def_rw("target_kl", &UpdateConfig::target_kl)
        .def_prop_rw(
            "clip", [](const UpdateConfig& c) { return c.loss.clip; },
            [](UpdateConfig& c, float v) { c.loss.clip = v; })
        .def_prop_rw(
            "clip_value_loss", [](const UpdateConfig& c) { return c.loss.clips_value_loss; },
            [](UpdateConfig& c, bool v) { c.loss.clips_value_loss = v; })
        .def_prop_rw(
            "value_coefficient", [](const UpdateConfig& c) { return c.loss.value_coefficient; },
            [](UpdateConfig& c, float v) { c.loss.value_coefficient = v; })
        .def_prop_rw(
            "entropy_coefficient", [](const UpdateConfig& c) { return c.loss.entropy_coefficient; },
            [](UpdateConfig& c, float v) { c.loss.entropy_coefficient = v; })
        .def_rw("normalize_advantages", &UpdateConfig::normalize_advantages)
        .def_rw("max_grad_norm", &UpdateConfig::max_grad_norm)
        .def_rw("learning_rate", &UpdateConfig::learning_rate)
        .def_rw("beta1", &UpdateConfig::beta1)
        .def_rw("beta2", &UpdateConfig::beta2)
        .def_rw("epsilon", &UpdateConfig::epsilon)
        .def_rw("weight_decay", &UpdateConfig::weight_decay);
}

}  // namespace

NB_MODULE(native_learner, module) {
    module.doc() = "PPO for networks of linear layers, embedding tables and recurrent cells.";
    module.def("kernel_names", &kernel_names);
    module.def("discounted_sums", &discounted_sums, "rewards"_a, "ended"_a, "running"_a, "gamma"_a, "out"_a);
    module.def("are_finite", &are_finite, "arrays"_a);
    bind_collectives(module);
    bind_update_config(module);
    nb::class_<PyLearner>(module, "Learner")
        .def("__init__", &make_learner, nb::kw_only(), "network"_a, "head"_a, "network_input"_a, "parameters"_a,
             "buffer"_a, "normalizer"_a.none(), "horizon"_a, "env_count"_a, "threads"_a, "segment_length"_a = 1,
             "kernels"_a = "")
        .def(
            "begin_rollout",
            [](PyLearner& owner, std::uint64_t seed, std::uint64_t iteration) {
                owner.learner->begin_rollout(seed, iteration);
            },
            "seed"_a, "iteration"_a)
        .def("load_memory", &load_memory, "parts"_a)
        .def("store_memory", &store_memory, "parts"_a)
        .def("act", &act, "step"_a)
        .def("evaluate_values", &evaluate_values, "final_observations"_a, "steps"_a, "envs"_a,
             "codes"_a = std::vector<nb::object>())
        .def("update", &update, "generator"_a, "config"_a, "reducer"_a.none() = nb::none())
        .def("stats", &stats)
        .def_prop_ro("kernels", [](const PyLearner& owner) { return std::string(owner.learner->kernels_name()); });
    bind_envs(module);
    bind_network(module);
    bind_off_policy(module);
}

}  // namespace engine
