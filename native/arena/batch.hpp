// Many worlds, stepped in one call, split over threads by world: results do not depend on their number.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "crew.hpp"
#include "observe.hpp"
#include "saved.hpp"
#include "task.hpp"
#include "world.hpp"

namespace arena {

// Where observations go; row w * agents is the first of world w. `selves` is only used by the form of bytes.
struct Outputs {
    std::uint8_t* views = nullptr;
    std::uint8_t* selves = nullptr;
};

class Batch {
   public:
    Batch(const std::vector<Task>& tasks, int world_count, int threads);

    // These throw before anything has changed: std::out_of_range for a world or task that is not there,
    // std::invalid_argument for what cannot be done.
    void reset(const std::vector<int>& worlds, const std::vector<std::uint64_t>& seeds, const std::vector<int>& tasks,
               Outputs out);
    std::vector<int> step(const std::int64_t* actions, Outputs out, float* rewards);
    void restore(const std::vector<std::optional<SavedWorld>>& saved);

    // For whoever has threads of his own. Between the first two, nobody else may do anything of the above, and threads
    // may step different worlds; `ended` [worlds] says which episodes are over, `looks` is the caller's.
    void take_turn();
    void end_turn() { is_busy_ = false; }
    void step_some(int first, int end, const std::int64_t* actions, Outputs out, float* rewards, std::uint8_t* ended,
                   Looks& looks);

    // Throws std::runtime_error at the first thing that must never be.
    void check() const;

    const World& world(int number) const;        // throws when it was never reset
    bool has_world(int number) const;
    const Plan& plan(int task) const { return plans_.at(task); }
    int task_count() const { return static_cast<int>(plans_.size()); }
    int world_count() const { return static_cast<int>(worlds_.size()); }
    int row_count() const { return world_count() * agents_; }
    int agents() const { return agents_; }
    Form form() const { return plans_[0].form; }
    int view() const { return plans_[0].view; }
    int tokens() const { return plans_[0].tokens; }
    std::size_t view_bytes() const { return view_bytes_; }  // of one row of `Outputs::views`

   private:
    void observe(int world, Looks& looks, Outputs out);
    void expect_known(const std::vector<int>& worlds, const std::vector<int>& tasks) const;
    void expect_running(int first, int end) const;
    void expect_possible(int first, int end, const std::int64_t* actions) const;
    // After all expectations.
    void step_share(int first, int end, const std::int64_t* actions, Outputs out, float* rewards, Looks& looks);

    std::vector<Plan> plans_;  // worlds point into it: it is filled once
    std::vector<Eyes> eyes_;
    Room room_;
    std::vector<World> worlds_;
    int agents_;
    std::size_t view_bytes_;
    Crew crew_;
    std::vector<Looks> looks_;  // one per thread
    std::vector<MapMaker> makers_;         // one per thread
    std::atomic<bool> is_busy_{false};
};

}  // namespace arena
