// A rollout in worlds of another module, which are stepped through their door, without Python as long as no episode ends.
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "../batch_door.h"
#include "learner.hpp"

namespace engine {

// Where a part of all observations is written: [T + 1, B, …].
struct SeenBlock {
    std::uint8_t* first;
    std::size_t row_bytes;  // of one player
};

// Worlds whose episode ended in a step, in rising order; without any, the recording is full.
struct Stop {
    int step;
    std::vector<int> worlds;
};

// Each thread has worlds of its own and goes through all steps with them, until one of them ends. Then it waits for its
// turn: ends are told in the order of steps, and of worlds within a step, as if all had been stepped together, so that
// what is drawn for the next episodes does not depend on the number of threads.
class BatchPlay {
   public:
    // `blocks` in the order of the door's parts. All of it was checked before.
    BatchPlay(const palaestra_batch_door& door, std::vector<SeenBlock> blocks, Learner& learner);

    // From row 0 on.
    void begin();
    // Until the next end that is to be told. Before the next call those worlds begin anew in row `step + 1`, with
    // `starts` and `terminated` set. Throws runtime_error for what a world could not do, and what `Learner::read` throws.
    Stop go_on();

   private:
    struct Share {
        int first, last;         // worlds
        int reached = 0;         // the step to be taken next
        std::vector<int> ended;  // in the step before it: it waits
        std::exception_ptr failure;
    };
    void play_share(Share& share, int worker);
    void step(const Share& share);
    Stop earliest_stop();

    const palaestra_batch_door& door_;
    const std::vector<SeenBlock> blocks_;
    Learner& learner_;
    std::vector<Share> shares_;        // one for each thread that has one
    std::vector<std::uint8_t> ended_;  // [worlds], of the last step of each
};

}  // namespace engine
