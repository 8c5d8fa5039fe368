#include "batch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace arena {

namespace {

using std::to_string;

// Python lets two threads in as soon as the lock is given up; the second is turned away.
class Turn {
   public:
    explicit Turn(Batch& batch) : batch_(batch) { batch_.take_turn(); }
    ~Turn() { batch_.end_turn(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Batch& batch_;
};

void expect_agreement(const std::vector<Task>& tasks) {
    if (tasks.empty()) throw std::invalid_argument("a batch of worlds wants at least one task");
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

std::size_t bytes_of_a_view(const Task& task) {
    const std::size_t square = static_cast<std::size_t>(task.view) * task.view;
    if (task.form == Form::TOKENS) return 3 * static_cast<std::size_t>(task.tokens);
    return task.form == Form::BOX ? FEATURE_COUNT * square : square;
}

}  // namespace

Batch::Batch(const std::vector<Task>& tasks, int world_count, int threads)
    : crew_(std::min(checked(threads, 1, 256, "threads"), checked(world_count, 1, 1 << 20, "world_count"))),
      looks_(crew_.size()),
      makers_(crew_.size()) {
    expect_agreement(tasks);
    for (const Task& task : tasks) plans_.emplace_back(task);
    for (const Plan& plan : plans_) {
        eyes_.emplace_back(plan);
        room_.make_room_for(plan);
    }
    worlds_.assign(world_count, World(room_));
    agents_ = plans_[0].agents;
    view_bytes_ = bytes_of_a_view(plans_[0]);
}

bool Batch::has_world(int number) const {
    expect_known({number}, {});
    return worlds_[number].plan != nullptr;
}

const World& Batch::world(int number) const {
    if (!has_world(number)) throw std::invalid_argument("world " + to_string(number) + " has never been reset");
    return worlds_[number];
}

void Batch::expect_known(const std::vector<int>& worlds, const std::vector<int>& tasks) const {
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

void Batch::take_turn() {
    if (is_busy_.exchange(true)) throw std::runtime_error("these worlds are being stepped by another thread");
}

void Batch::expect_running(int first, int end) const {
    for (int number = first; number < end; ++number) {
        if (!worlds_[number].is_running()) {
            throw std::invalid_argument("world " + to_string(number) +
                                        " is not in an episode: reset it before the next step");
        }
    }
}

void Batch::expect_possible(int first, int end, const std::int64_t* actions) const {
    for (int row = first * agents_; row < end * agents_; ++row) {
        if (actions[row] < 0 || actions[row] >= ACTION_COUNT) {
            throw std::invalid_argument("action " + to_string(actions[row]) + " of row " + to_string(row) +
                                        " is not one of 0 to " + to_string(ACTION_COUNT - 1));
        }
    }
}

void Batch::reset(const std::vector<int>& worlds, const std::vector<std::uint64_t>& seeds,
                  const std::vector<int>& tasks, Outputs out) {
    const Turn turn(*this);
    if (worlds.size() != seeds.size() || worlds.size() != tasks.size()) {
        throw std::invalid_argument("a reset wants as many seeds and tasks as worlds; here are " +
                                    to_string(worlds.size()) + " worlds, " + to_string(seeds.size()) + " seeds and " +
                                    to_string(tasks.size()) + " tasks");
    }
    expect_known(worlds, tasks);
    std::vector<char> is_named(worlds_.size());
    for (const int world : worlds) {
        if (std::exchange(is_named[world], 1)) {
            throw std::invalid_argument("world " + to_string(world) + " is named twice in one reset");
        }
    }
    std::atomic<int> failed{NOTHING};
    crew_.run([&](int thread) {
        const std::size_t first = worlds.size() * thread / crew_.size();
        const std::size_t end = worlds.size() * (thread + 1) / crew_.size();
        for (std::size_t k = first; k < end; ++k) {
            World& world = worlds_[worlds[k]];
            if (world.begin(plans_[tasks[k]], tasks[k], seeds[k], makers_[thread])) {
                observe(worlds[k], looks_[thread], out);
            } else {
                failed = worlds[k];
            }
        }
    });
    if (failed != NOTHING) {
        throw std::runtime_error("no map could be drawn for world " + to_string(failed.load()) +
                                 ": its stations do not fit");
    }
}

std::vector<int> Batch::step(const std::int64_t* actions, Outputs out, float* rewards) {
    const Turn turn(*this);
    expect_possible(0, world_count(), actions);
    expect_running(0, world_count());
    crew_.run([&](int thread) {
        const int first = static_cast<int>(static_cast<long long>(world_count()) * thread / crew_.size());
        const int end = static_cast<int>(static_cast<long long>(world_count()) * (thread + 1) / crew_.size());
        step_share(first, end, actions, out, rewards, looks_[thread]);
    });
    std::vector<int> cut;
    for (int number = 0; number < world_count(); ++number) {
        if (!worlds_[number].is_running()) cut.push_back(number);
    }
    return cut;
}

void Batch::step_some(int first, int end, const std::int64_t* actions, Outputs out, float* rewards, std::uint8_t* ended,
                      Looks& looks) {
    if (first < 0 || first > end || end > world_count()) throw std::out_of_range("there are no such worlds");
    expect_possible(first, end, actions);
    expect_running(first, end);
    step_share(first, end, actions, out, rewards, looks);
    for (int number = first; number < end; ++number) ended[number] = !worlds_[number].is_running();
}

void Batch::step_share(int first, int end, const std::int64_t* actions, Outputs out, float* rewards, Looks& looks) {
    for (int number = first; number < end; ++number) {
        const std::size_t row = static_cast<std::size_t>(number) * agents_;
        worlds_[number].step(actions + row, rewards + row);
        observe(number, looks, out);
    }
}

void Batch::observe(int number, Looks& looks, Outputs out) {
    World& world = worlds_[number];
    const std::size_t row = static_cast<std::size_t>(number) * agents_;
    std::uint8_t* views = out.views + row * view_bytes_;
    switch (world.plan->form) {
        case Form::BYTES: return write_bytes(world, views, out.selves + row * SELF_COUNT);
        case Form::TOKENS: return write_tokens(world, eyes_[world.task], looks, views);
        case Form::BOX: return write_box(world, views);
    }
}

void Batch::restore(const std::vector<std::optional<SavedWorld>>& saved) {
    const Turn turn(*this);
    if (saved.size() != worlds_.size()) {
        throw std::invalid_argument("the state holds " + to_string(saved.size()) + " worlds, and there are " +
                                    to_string(worlds_.size()) + " here");
    }
    std::vector<World> restored(worlds_.size(), World(room_));
    for (std::size_t number = 0; number < saved.size(); ++number) {
        if (!saved[number]) continue;
        expect_known({}, {saved[number]->task});
        try {
            load_world(*saved[number], plans_[saved[number]->task], restored[number]);
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

}  // namespace arena
