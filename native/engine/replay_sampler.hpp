// Transitions in the arrays of Python's ReplayBuffer (algorithms/buffers/replay_buffer.py): drawn, gathered and added.
#pragma once

#include <cstdint>
#include <vector>

#include "action_head.hpp"
#include "float_array.hpp"
#include "rollout_buffer.hpp"

namespace engine {

enum End : std::uint8_t { RUNNING, TERMINATED, TRUNCATED };

constexpr std::int32_t NO_FINAL = -1;

// The arrays of the replay buffer; a row holds one step of all environments.
struct ReplayArrays {
    int rows, env_count;
    const void* observations;   // [rows, B, …] that were acted on; the next row holds the next observations
    Actions actions;            // [rows, B, parts]
    int parts;                  // entries of an action
    float* rewards;             // [rows, B]
    std::uint8_t* ends;         // [rows, B] of End
    std::int32_t* final_slots;  // [rows, B] where the last observation of a truncated episode is, or NO_FINAL
    void* finals;               // [slots, …]
    int final_count;            // slots
};

// What changes with every step. Python's buffer has it between two calls.
struct ReplayPosition {
    int position;  // row of the observations to act on next
    int size;      // complete rows before it
    std::int64_t total_rows;
    std::vector<int> free_slots;  // of `finals`; the last one is used next
};

// A batch as the networks read it. Rows are padded to whole SIMD vectors.
struct TransitionBatch {
    TransitionBatch(int capacity, int observation_stride, const ReplayArrays& arrays);
    const int capacity, stride;
    FloatArray observations, next_observations;  // [N, stride] converted to the network's input
    FloatArray continuous;                       // [N, parts] actions
    std::vector<std::int64_t> choices;           // [N, parts] actions
    std::vector<float> rewards, discounts;       // [N] sum over the steps; of the value of what follows, 0 at an end
    std::vector<std::int64_t> indices;           // [N] row * B + environment of the first step
    std::vector<float> weights;                  // [N] of the losses
};

class ReplaySampler {
   public:
    ReplaySampler(ReplayArrays arrays, ObservationReader reader, int n_step, float gamma);

    const ReplayArrays& arrays() const { return arrays_; }
    const ObservationReader& reader() const { return reader_; }
    ReplayPosition& position() { return position_; }
    // Python's buffer keeps more final observations than before.
    void set_finals(void* finals, int count);
    std::int64_t transitions() const { return static_cast<std::int64_t>(position_.size) * arrays_.env_count; }
    // The index of the transition that is the `number`th, from the oldest row on.
    std::int64_t index_of(std::int64_t number) const;

    // Draws `count` transitions uniformly.
    void draw(const CounterRng& rng, int count, TransitionBatch& batch) const;
    // Requests the cache lines that `gather` reads.
    void prefetch(const TransitionBatch& batch, int count) const;
    // Gathers rows [first, last) of the batch, which is drawn.
    void gather(int first, int last, TransitionBatch& batch) const;
    // Converts the observations of `row`, environments [first, last), to out [rows, stride].
    void read_row(int row, int first, int last, float* out, std::size_t stride) const;

    // Before a step is written: frees what the row after the current one kept.
    void begin_row();
    // Where the last observation of an episode that was truncated is to be written: floats.
    float* keep_final(int env);
    // The current row is complete.
    void end_row();
    int next_row(int row) const { return row + 1 == arrays_.rows ? 0 : row + 1; }

   private:
    struct Window {
        std::size_t last;  // index of the last step
        float reward, discount;
    };
    Window window_of(std::size_t index) const;
    void read(const void* observations, std::size_t at, float* out) const;

    ReplayArrays arrays_;
    const ObservationReader reader_;
    const int n_step_;
    const float gamma_;
    ReplayPosition position_{};
};

}  // namespace engine
