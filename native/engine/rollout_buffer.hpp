// A rollout of T steps of B environments in arrays that belong to Python, and the recurrent states that go with it.
#pragma once

#include <cstdint>
#include <vector>

#include "action_head.hpp"
#include "float_array.hpp"
#include "network.hpp"

namespace engine {

enum class InputKind : int { FLOATS, BYTES, CATEGORICAL };

struct RolloutBuffer {
    int horizon, env_count;
    const void* observations;                // [T + 1, B, …] the part that becomes the network's input
    std::vector<const std::uint8_t*> codes;  // of each embedding table: [T + 1, B, cells]
    float* rewards;                          // [T, B]
    bool* starts;                            // [T + 1, B] the observation is the first of an episode
    bool* terminated;                        // [T, B]
    Actions actions;                         // [T, B, parts]
    float *log_probs, *values, *next_values, *advantages, *returns;  // [T, B]

    std::size_t samples() const { return static_cast<std::size_t>(horizon) * env_count; }
};

// Converts an observation to the network's input.
struct ObservationReader {
    InputKind kind;
    std::vector<int> counts, starts;  // categorical: number of classes, first class
    int size;                         // floats of the network's input
    const float *shift, *scale;       // [size] of the observation normalizer; null without one
    float limit;                      // normalized values are clipped to +-limit

    int parts() const { return kind == InputKind::CATEGORICAL ? static_cast<int>(counts.size()) : size; }

    // Writes row `row` of `observations` to out [size]. False if a category is out of range.
    bool read(const void* observations, std::size_t row, float* out) const;
};

// A truncated episode and its final observation.
struct Truncation {
    int step, env;
    std::vector<float> observation;   // [stride of slot 0] the network's input
    std::vector<std::uint8_t> codes;  // a row of TableCodes
};

// 1 - Var(returns - values) / Var(returns); NaN if the returns are all equal.
double explained_variance(const RolloutBuffer& buffer);

// The recurrent states of a network's cells during a rollout. Network lays out a row of states.
class RecurrentState {
   public:
    // `segment_length`: steps that an update backpropagates through.
    RecurrentState(const NetworkLayout& layout, const RolloutBuffer& buffer, int segment_length);

    // Copies the states of all environments from or to Python: parts [env_count, size of the cell], cell by cell, the
    // hidden state and then the cell state.
    void load(const std::vector<const float*>& parts);
    void store(const std::vector<float*>& parts) const;
    std::size_t part_count() const;
    int part_size(std::size_t part) const;

    // Before `step` of environments [first, last): saves the states at segment starts and after truncations.
    void record(int step, int first, int last);
    float* current(int env) { return current_.data() + env * size_; }
    // The state before segment s of environment e, for column s * env_count + e.
    const float* at_segment_start(std::size_t column) const { return segment_starts_.data() + column * size_; }
    // The state after a step that truncated an episode.
    const float* after_truncation(int step, int env) const;
    std::size_t size() const { return size_; }  // of a row of states

   private:
    struct TruncatedState {
        int step;
        std::vector<float> state;
    };
    struct Part {
        std::size_t offset;  // in a row of states
        int size;
    };

    const RolloutBuffer& buffer_;
    const int segment_length_;
    const std::size_t size_;
    std::vector<Part> parts_;
    FloatArray current_, segment_starts_;
    std::vector<std::vector<TruncatedState>> truncated_;  // of each environment: threads step different ones
};

}  // namespace engine
