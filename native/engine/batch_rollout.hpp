// A rollout in environments of another compiled module, stepped through its batch step API: Python is needed only when
// an episode ends.
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "../batch_step_api.h"
#include "learner.hpp"

namespace engine {

// Where a part of the observations is written: [T + 1, B, …].
struct ObservationBlock {
    std::uint8_t* first;
    std::size_t row_bytes;  // of one agent
};

// Worlds whose episodes ended in `step`, in ascending order; none if the buffer is full.
struct EndedWorlds {
    int step;
    std::vector<int> worlds;
};

// Each thread steps its own worlds until an episode ends, and then waits. Ends are reported in the order of steps and
// worlds, as if all worlds were stepped together, so that the seeds of the next episodes do not depend on the number of
// threads.
class BatchRollout {
   public:
    // `blocks`: in the order of the API's parts. The caller has checked all arguments.
    BatchRollout(const palaestra_batch_step_api& api, std::vector<ObservationBlock> blocks, Learner& learner);

    // Starts a rollout at row 0.
    void start();
    // Runs until the next episode end to report, or the end of the rollout. Before the next call the caller resets
    // those worlds into row `step + 1` and sets `starts` and `terminated`. Throws std::runtime_error with the API's
    // message, and what `Learner::read_observations` throws.
    EndedWorlds run_until_end();

   private:
    struct Shard {
        int first, last;         // worlds [first, last)
        int step = 0;            // the next step
        std::vector<int> ended;  // worlds that ended in the step before: the shard waits
        std::exception_ptr failure;
    };
    void collect_shard(Shard& shard, int worker);
    void step(const Shard& shard);
    EndedWorlds earliest_end();

    const palaestra_batch_step_api& api_;
    const std::vector<ObservationBlock> blocks_;
    Learner& learner_;
    std::vector<Shard> shards_;        // one per thread
    std::vector<std::uint8_t> ended_;  // [worlds] whether each ended in its last step
};

}  // namespace engine
