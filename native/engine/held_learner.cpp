#include "held_learner.hpp"

namespace nb = nanobind;

namespace engine {

void HeldLearner::hold_codes(const Plan& plan, const nb::dict& recording, std::size_t rows, Recording& tape) {
    if (!plan.table_count) return;
    const nb::list given = nb::cast<nb::list>(recording["codes"]);
    if (static_cast<int>(nb::len(given)) != plan.table_count) throw std::invalid_argument("every table needs its codes");
    for (int number = 0; number < plan.table_count; ++number) {
        tape.codes.push_back(hold<std::uint8_t>(given[number], rows * plan.tables[number].cells, "codes"));
        code_sizes.push_back(plan.tables[number].cells);
    }
}

HeldLearner::HeldLearner(const std::vector<int>& sizes, const std::vector<LayerTuple>& layers, int action_slot,
                         int value_slot, int head, const std::vector<int>& counts, std::size_t log_std, int input,
                         const std::vector<int>& input_counts, const std::vector<int>& input_firsts,
                         nb::dict parameters, nb::dict recording, nb::object normalizer, int horizon, int env_count,
                         int threads, const std::string& kernels, const std::vector<CellTuple>& cells, int stretch,
                         const std::vector<TableTuple>& tables) {
    if (horizon < 1 || env_count < 1 || threads < 1 || stretch < 1) {
        throw std::invalid_argument("sizes are counted from 1");
    }
    if (horizon % stretch || (cells.empty() && stretch > 1)) throw std::invalid_argument("stretches do not fit");
    const Kernels* chosen = kernels_called(kernels.c_str());
    if (!chosen) throw std::invalid_argument("this processor cannot run '" + kernels + "'");
    const std::size_t count = nb::cast<Array<float>>(parameters["values"]).size();
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

}  // namespace engine
