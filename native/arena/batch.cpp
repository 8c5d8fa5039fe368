#include "batch.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace arena {

namespace {

using std::to_string;

// Several Python threads can get here once the GIL is released; the second one gets an error.
class ExclusiveUse {
   public:
    explicit ExclusiveUse(Batch& batch) : batch_(batch) { batch_.acquire(); }
    ~ExclusiveUse() { batch_.release(); }
    ExclusiveUse(const ExclusiveUse&) = delete;
    ExclusiveUse& operator=(const ExclusiveUse&) = delete;

   private:
    Batch& batch_;
};

void check_tasks_agree(const std::vector<Task>& tasks) {
    if (tasks.empty()) throw std::invalid_argument("a batch of worlds needs at least one task");
    for (const Task& task : tasks) {
        const Task& first = tasks[0];
        if (task.agents != first.agents || task.view != first.view || task.form != first.form ||
            task.tokens != first.tokens) {
            throw std::invalid_argument("tasks in one batch must agree in agents, view, observation and tokens");
        }
    }
}

int checked(int value, int least, int most, const char* name) {
    if (value < least || value > most) {
        throw std::invalid_argument(std::string(name) + "=" + to_string(value) + " must be from " + to_string(least) +
                                    " to " + to_string(most));
    }
    return value;
}

std::size_t view_bytes_of(const Task& task) {
    const std::size_t square = static_cast<std::size_t>(task.view) * task.view;
    if (task.form == ObservationForm::TOKENS) return 3 * static_cast<std::size_t>(task.tokens);
    return task.form == ObservationForm::BOX ? FEATURE_COUNT * square : square;
}

}  // namespace

Batch::Batch(const std::vector<Task>& tasks, int world_count, int threads)
    : pool_(std::min(checked(threads, 1, 256, "threads"), checked(world_count, 1, 1 << 20, "world_count"))),
      token_tables_(pool_.size()),
      generators_(pool_.size()) {
    check_tasks_agree(tasks);
    for (const Task& task : tasks) plans_.emplace_back(task);
    for (const Plan& plan : plans_) {
        orders_.emplace_back(plan);
        room_.include(plan);
    }
    worlds_.assign(world_count, World(room_));
    agents_ = plans_[0].agents;
    view_bytes_ = view_bytes_of(plans_[0]);
}

bool Batch::has_world(int number) const {
    check_numbers({number}, {});
    return worlds_[number].plan != nullptr;
}

const World& Batch::world(int number) const {
    if (!has_world(number)) throw std::invalid_argument("world " + to_string(number) + " has never been reset");
    return worlds_[number];
}

void Batch::check_numbers(const std::vector<int>& worlds, const std::vector<int>& tasks) const {
    for (const int world : worlds) {
        if (world < 0 || world >= world_count()) {
            throw std::out_of_range("there is no world " + to_string(world) + "; they are 0 to " +
                                    to_string(world_count() - 1));
        }
    }
    for (const int task : tasks) {
        if (task < 0 || task >= static_cast<int>(plans_.size())) {
            throw std::out_of_range("there is no task " + to_string(task) + "; they are 0 to " +
                                    to_string(plans_.size() - 1));
        }
    }
}

void Batch::acquire() {
    if (is_busy_.exchange(true)) throw std::runtime_error("these worlds are being stepped by another thread");
}

void Batch::check_running(int first, int end) const {
    for (int number = first; number < end; ++number) {
        if (!worlds_[number].is_running()) {
            throw std::invalid_argument("world " + to_string(number) +
                                        " is not in an episode: reset it before the next step");
        }
    }
}

void Batch::check_actions(int first, int end, const std::int64_t* actions) const {
    for (int row = first * agents_; row < end * agents_; ++row) {
        if (actions[row] < 0 || actions[row] >= ACTION_COUNT) {
            throw std::invalid_argument("action " + to_string(actions[row]) + " of row " + to_string(row) +
                                        " is not one of 0 to " + to_string(ACTION_COUNT - 1));
        }
    }
}

void Batch::reset(const std::vector<int>& worlds, const std::vector<std::uint64_t>& seeds,
                  const std::vector<int>& tasks, Outputs out) {
    const ExclusiveUse use(*this);
    if (worlds.size() != seeds.size() || worlds.size() != tasks.size()) {
        throw std::invalid_argument("a reset needs as many seeds and tasks as worlds; got " + to_string(worlds.size()) +
                                    " worlds, " + to_string(seeds.size()) + " seeds and " + to_string(tasks.size()) +
                                    " tasks");
    }
    check_numbers(worlds, tasks);
    std::vector<char> is_named(worlds_.size());
    for (const int world : worlds) {
        if (std::exchange(is_named[world], 1)) {
            throw std::invalid_argument("world " + to_string(world) + " is named twice in one reset");
        }
    }
    std::atomic<int> failed{NONE};
    pool_.run([&](int thread) {
        const std::size_t first = worlds.size() * thread / pool_.size();
        const std::size_t end = worlds.size() * (thread + 1) / pool_.size();
        for (std::size_t k = first; k < end; ++k) {
            World& world = worlds_[worlds[k]];
            if (world.reset(plans_[tasks[k]], tasks[k], seeds[k], generators_[thread])) {
                observe(worlds[k], token_tables_[thread], out);
            } else {
                failed = worlds[k];
            }
        }
    });
    if (failed != NONE) {
        throw std::runtime_error("no map could be generated for world " + to_string(failed.load()) +
                                 ": its stations do not fit");
    }
}

std::vector<int> Batch::step(const std::int64_t* actions, Outputs out, float* rewards) {
    const ExclusiveUse use(*this);
    check_actions(0, world_count(), actions);
    check_running(0, world_count());
    pool_.run([&](int thread) {
        const int first = static_cast<int>(static_cast<long long>(world_count()) * thread / pool_.size());
        const int end = static_cast<int>(static_cast<long long>(world_count()) * (thread + 1) / pool_.size());
        step_unchecked(first, end, actions, out, rewards, token_tables_[thread]);
    });
    std::vector<int> cut;
    for (int number = 0; number < world_count(); ++number) {
        if (!worlds_[number].is_running()) cut.push_back(number);
    }
    return cut;
}

void Batch::step_range(int first, int end, const std::int64_t* actions, Outputs out, float* rewards,
                       std::uint8_t* ended, TokenTable& tokens_of_things) {
    if (first < 0 || first > end || end > world_count())
        throw std::out_of_range("worlds " + to_string(first) + " to " + to_string(end) + " are not within 0 to " +
                                to_string(world_count()));
    check_actions(first, end, actions);
    check_running(first, end);
    step_unchecked(first, end, actions, out, rewards, tokens_of_things);
    for (int number = first; number < end; ++number) ended[number] = !worlds_[number].is_running();
}

void Batch::step_unchecked(int first, int end, const std::int64_t* actions, Outputs out, float* rewards,
                           TokenTable& tokens_of_things) {
    for (int number = first; number < end; ++number) {
        const std::size_t row = static_cast<std::size_t>(number) * agents_;
        worlds_[number].step(actions + row, rewards + row);
        observe(number, tokens_of_things, out);
    }
}

void Batch::observe(int number, TokenTable& tokens_of_things, Outputs out) {
    World& world = worlds_[number];
    const std::size_t row = static_cast<std::size_t>(number) * agents_;
    std::uint8_t* views = out.views + row * view_bytes_;
    switch (world.plan->form) {
        case ObservationForm::BYTES: return write_bytes(world, views, out.selves + row * SELF_COUNT);
        case ObservationForm::TOKENS: return write_tokens(world, orders_[world.task], tokens_of_things, views);
        case ObservationForm::BOX: return write_box(world, views);
    }
}

void Batch::restore(const std::vector<std::optional<WorldState>>& state) {
    const ExclusiveUse use(*this);
    if (state.size() != worlds_.size()) {
        throw std::invalid_argument("the state holds " + to_string(state.size()) + " worlds, and there are " +
                                    to_string(worlds_.size()) + " here");
    }
    std::vector<World> restored(worlds_.size(), World(room_));
    for (std::size_t number = 0; number < state.size(); ++number) {
        if (!state[number]) continue;
        check_numbers({}, {state[number]->task});
        try {
            load_state(*state[number], plans_[state[number]->task], restored[number]);
        } catch (const std::invalid_argument& problem) {
            throw std::invalid_argument("the state of world " + to_string(number) + " is damaged: " + problem.what());
        }
    }
    worlds_ = std::move(restored);
}

void Batch::check() const {
    for (int number = 0; number < world_count(); ++number) {
        if (!has_world(number)) continue;
        try {
            check_world(worlds_[number]);
        } catch (const std::runtime_error& problem) {
            throw std::runtime_error("world " + to_string(number) + ": " + problem.what());
        }
    }
}

namespace {

Batch& batch_of(void* batch) { return *static_cast<Batch*>(batch); }

// Exceptions must not cross module boundaries.
template <typename Work>
int catch_errors(char* message, std::size_t room, const Work& work) {
    try {
        work();
        return 0;
    } catch (const std::exception& error) {
        std::snprintf(message, room, "%s", error.what());
        return -1;
    }
}

int begin(void* batch, char* message, std::size_t room) {
    return catch_errors(message, room, [&] { batch_of(batch).acquire(); });
}

void end(void* batch) { batch_of(batch).release(); }

int step(void* batch, std::int32_t first_world, std::int32_t last_world, const std::int64_t* actions,
         void* const* observations, float* rewards, std::uint8_t* ended, char* message, std::size_t room) {
    return catch_errors(message, room, [&] {
        Batch& worlds = batch_of(batch);
        thread_local TokenTable token_table;
        const bool has_selves = worlds.form() == ObservationForm::BYTES;
        const Outputs out = {static_cast<std::uint8_t*>(observations[0]),
                             has_selves ? static_cast<std::uint8_t*>(observations[1]) : nullptr};
        worlds.step_range(first_world, last_world, actions, out, rewards, ended, token_table);
    });
}

}  // namespace

BatchStepApi::BatchStepApi(Batch& worlds) : palaestra_batch_step_api{} {
    const bool has_names = worlds.form() == ObservationForm::BYTES;
    parts_.push_back({has_names ? "cells" : "", "uint8", static_cast<std::int64_t>(worlds.view_bytes())});
    if (has_names) parts_.push_back({"self", "uint8", SELF_COUNT});
    version = PALAESTRA_BATCH_STEP_API_VERSION;
    world_count = worlds.world_count();
    agents = worlds.agents();
    action_items = 1;
    part_count = static_cast<std::int32_t>(parts_.size());
    parts = parts_.data();
    batch = &worlds;
    begin = arena::begin;
    end = arena::end;
    step = arena::step;
}

}  // namespace arena
