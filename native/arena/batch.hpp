// Many worlds stepped in one call, split over threads by world: results do not depend on the number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "../batch_step_api.h"
#include "../thread_pool.hpp"
#include "observe.hpp"
#include "world_state.hpp"

namespace arena {

// Where observations are written; row w * agents is the first of world w. `selves` is used by byte observations only.
struct Outputs {
    std::uint8_t* views = nullptr;
    std::uint8_t* selves = nullptr;
};

class Batch {
   public:
    Batch(const std::vector<Task>& tasks, int world_count, int threads);

    // These throw before anything changes: std::out_of_range for a world or task number, std::invalid_argument for
    // other invalid arguments.
    void reset(const std::vector<int>& worlds, const std::vector<std::uint64_t>& seeds, const std::vector<int>& tasks,
               Outputs out);
    std::vector<int> step(const std::int64_t* actions, Outputs out, float* rewards);
    void restore(const std::vector<std::optional<WorldState>>& state);

    // For callers with their own threads, which may step different worlds between `acquire` and `release`; meanwhile
    // the methods above throw. `ended` [worlds]: which episodes are over. `token_table`: of the calling thread.
    void acquire();
    void release() { is_busy_ = false; }
    void step_range(int first, int end, const std::int64_t* actions, Outputs out, float* rewards, std::uint8_t* ended,
                    TokenTable& tokens_of_things);

    // Throws std::runtime_error for the first violated invariant.
    void check() const;

    const World& world(int number) const;  // throws if it was never reset
    bool has_world(int number) const;
    const Plan& plan(int task) const { return plans_.at(task); }
    int task_count() const { return static_cast<int>(plans_.size()); }
    int world_count() const { return static_cast<int>(worlds_.size()); }
    int row_count() const { return world_count() * agents_; }
    int agents() const { return agents_; }
    ObservationForm form() const { return plans_[0].form; }
    int view() const { return plans_[0].view; }
    int tokens() const { return plans_[0].tokens; }
    std::size_t view_bytes() const { return view_bytes_; }  // of one row of `Outputs::views`

   private:
    void observe(int world, TokenTable& tokens_of_things, Outputs out);
    void check_numbers(const std::vector<int>& worlds, const std::vector<int>& tasks) const;
    void check_running(int first, int end) const;
    void check_actions(int first, int end, const std::int64_t* actions) const;
    // Arguments are already checked.
    void step_unchecked(int first, int end, const std::int64_t* actions, Outputs out, float* rewards,
                        TokenTable& tokens_of_things);

    std::vector<Plan> plans_;  // never resized: worlds point into it
    std::vector<ViewOrder> orders_;
    WorldCapacity room_;
    std::vector<World> worlds_;
    int agents_;
    std::size_t view_bytes_;
    palaestra::ThreadPool pool_;
    std::vector<TokenTable> token_tables_;  // one per thread
    std::vector<MapGenerator> generators_;  // one per thread
    std::atomic<bool> is_busy_{false};
};

// The batch step API of a batch (see ../batch_step_api.h). Must not outlive the batch.
class BatchStepApi : public palaestra_batch_step_api {
   public:
    explicit BatchStepApi(Batch& worlds);
    BatchStepApi(const BatchStepApi&) = delete;
    BatchStepApi& operator=(const BatchStepApi&) = delete;

   private:
    std::vector<palaestra_batch_part> parts_;
};

}  // namespace arena
