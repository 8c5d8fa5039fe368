// What takes the time, compiled once per family of processors and chosen when the module is loaded.
#pragma once

#include <cstddef>

#include "plan.hpp"

namespace engine {

struct AdamStep {
    float scale;  // of the gradient, where it is clipped
    float beta1, beta2, epsilon;
    float step_size;       // learning rate over the first bias correction
    float inverse_spread;  // one over the root of the second bias correction
    float keep;            // 1 - learning rate * weight decay
};

struct LossWeights {
    float clip;
    bool clips_value;
    float value, entropy;
    float share;  // one over the minibatch
};

// Sums over samples; the update's statistics are made of them.
struct LossSums {
    double objective, squared_error, entropy, log_ratio, divergence, clipped;
};

// At most ROWS samples before a head. Figures of one kind lie side by side: k of sample r is at [k * ROWS + r].
struct HeadRows {
    const int* counts;     // [parts] of each choice
    int parts, size;       // numbers in an action; numbers that the network gives
    int rows;              // up to whole registers more are read and written, and count for nothing
    const float* numbers;  // [rows, stride] as the network gave them
    std::size_t stride;
    const float *log_std, *inverse_std;  // [size], of normals
    const int* choices;                  // [parts, ROWS] taken
    const float* taken;                  // [size, ROWS], of normals
    const float* log_probs;              // [ROWS], of normals
    float *logs, *shares, *entropies;    // [size, ROWS] twice, [parts, ROWS]
};

// The same samples when the policy acted, each [ROWS].
struct OldRows {
    const float *log_probs, *values, *advantages, *returns;
};

// A minibatch before its tables.
struct CodeRows {
    int rows;
    const unsigned char* codes;  // [rows, code_row]
    std::size_t code_row;
    const float* slopes;  // [rows, slope_row] of a table's target
    std::size_t slope_row;
};

enum Wanted : int { FOR_ACTION = 1, FOR_VALUE = 2, EVERYTHING = 3 };

struct Kernels {
    const char* name;
    int width;  // floats in a register

    // The parameters in the order in which a forward pass reads them.
    void (*pack)(const Plan& plan, const float* parameters, float* packed);
    void (*forward)(const Plan& plan, const float* parameters, const float* packed, const Block& block, int wanted);
    // Adds to `gradient` (a block of slopes) what `slopes` of the last slots, laid out as the block's values, mean for
    // the parameters.
    void (*backward)(const Plan& plan, const float* parameters, const float* packed, const Block& block, float* slopes,
                     float* gradient);
    // The slopes of the table's cells from `first` to before `last`, in the parameters' order.
    void (*table_slopes)(const Table& table, const CodeRows& rows, int first, int last, float* flat);
    // Adds `count` blocks of slopes up in the first, and gives it in the parameters' order, but for the tables.
    void (*spread)(const Plan& plan, float* gradients, int count, float* flat);
    // Logarithms and shares of every choice; log-probabilities of `taken`, which acting and learning must share.
    void (*chances)(const HeadRows& head);
    void (*normal_log_probs)(const HeadRows& head, float* log_probs);
    // d loss / d numbers [rows, stride], after the above. Of `value_loss` the numbers are values.
    void (*choice_loss)(const HeadRows& head, const OldRows& old, const LossWeights& weights, float* slopes,
                        LossSums& sums);
    void (*normal_loss)(const HeadRows& head, const OldRows& old, const LossWeights& weights, float* slopes,
                        float* log_std_slopes, LossSums& sums);
    void (*value_loss)(const HeadRows& head, const OldRows& old, const LossWeights& weights, float* slopes,
                       LossSums& sums);
    double (*squares)(const float* numbers, std::size_t count);
    void (*adam)(const AdamStep& step, std::size_t count, float* parameters, float* gradient, float* mean,
                 float* spread);
};

// The best that this processor can run; `name` forces one, and null comes back where it cannot run here.
const Kernels& best_kernels();
const Kernels* kernels_called(const char* name);

}  // namespace engine
