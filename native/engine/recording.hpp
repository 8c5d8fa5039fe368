// A rollout, in arrays that belong to Python: the tape's, and what the engine adds to it. T steps of B environments.
#pragma once

#include <cstdint>
#include <vector>

#include "heads.hpp"

namespace engine {

enum class Input : int { REALS, BYTES, CHOICES };

struct Recording {
    int horizon, env_count;
    const void* observations;  // [T + 1, B, …] as the environments gave them, of which the network's input is made
    std::vector<const std::uint8_t*> codes;  // of each table: [T + 1, B, cells]
    float* rewards;            // [T, B]
    bool* starts;              // [T + 1, B]
    bool* terminated;          // [T, B]
    Actions actions;           // [T, B, parts]
    float *log_probs, *values, *next_values, *advantages, *returns;  // [T, B]

    std::size_t samples() const { return static_cast<std::size_t>(horizon) * env_count; }
};

// From an observation to the network's input.
struct Reader {
    Input kind;
    std::vector<int> counts, firsts;  // of choices: how many, and how the first is called
    int size;                         // numbers that come out
    const float *shift, *scale;       // [size] of the running normaliser; null: none
    float limit;                      // beyond which normalised numbers are cut

    int parts() const { return kind == Input::CHOICES ? static_cast<int>(counts.size()) : size; }

    // Row `row` of `observations`; what is beyond `size` in `out` stays as it is. False for a choice that is none.
    bool read(const void* observations, std::size_t row, float* out) const;
};

// A truncated episode: where it was cut, and what was seen last.
struct Cut {
    int step, env;
    std::vector<float> observation;  // [stride of slot 0], ready for the network
    std::vector<std::uint8_t> codes;  // as CodePages reads them
};

// How much of the returns the values knew: 1 for all of it; not a number where returns do not differ.
double explained_variance(const Recording& recording);

}  // namespace engine
