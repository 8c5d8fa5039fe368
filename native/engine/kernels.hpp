// A network's layout as the kernels see it, and the table of kernels. Plain data: kernels are compiled once per CPU
// family and must not share inline functions with other translation units.
#pragma once

#include <cstddef>

namespace engine {

enum class Activation : int { NONE, TANH, RELU, GELU };
enum class HeadKind : int { CATEGORICAL, GAUSSIAN };
enum class CellKind : int { MINGRU, LSTM, GRU };

constexpr int ROWS = 64;  // samples that pass through a layer together: their activations stay in the cache
constexpr int SLICE =
    512;  // samples whose gradient is one sum; slices are added in order, whichever thread computes them
constexpr int NO_CELL = -1;
constexpr int NO_LAYER = -1;
constexpr int NO_TABLE = -1;
constexpr int NO_SLOT = -1;
constexpr int NO_NORM = -1;
constexpr int NARROW_OUTPUTS = 4;  // most outputs of a head that uses the narrow kernels, see kernels/matmul.hpp
constexpr std::size_t NO_OFFSET = static_cast<std::size_t>(-1);

// Slot 0 is the network's input. A layer reads one slot (or codes) and adds to another. Several layers may add to the
// same slot: a sum, or a layer on a concatenation, of which each source has a block of columns of the weights. Strides
// are sizes rounded up to whole SIMD vectors; the padding is always zero.
struct Layer {
    int source, target;
    int inputs, outputs;
    std::size_t weight,
        bias;  // offsets of the parameters [outputs, inputs] and [outputs], as in torch; bias: or NO_OFFSET
    std::size_t weight_row;  // stride of a row of weights: inputs, or more for a block of columns
    Activation activation;   // of the target: the same for all layers that add to it
    int table;               // embedding table that is read instead of source, inputs and weight; or NO_TABLE
    bool is_identity;        // adds the source as it is, without weights: a residual connection

    // set by Network:
    bool begins, ends;  // whether the layer is the first, the last that adds to its target
    int cell;           // recurrent cell that reads the target; or NO_CELL
    int norm;           // of the target, if this is its last layer; or NO_NORM
    bool is_for_action, is_for_value;
    bool is_narrow;             // an output layer with at most NARROW_OUTPUTS outputs
    std::size_t packed;         // [inputs, stride of target]; narrow: [outputs, stride of source]
    std::size_t packed_bias;    // [stride of target]: the sum of all biases of the target
    std::size_t padded_weight;  // [outputs, stride of source]; NO_OFFSET: the parameters are read in place
    std::size_t gradient;  // in a gradient block: [outputs, stride of source]; transposed: [inputs, stride of target]
    std::size_t bias_gradient;  // [stride of target], shared by all layers of the target
    bool has_bias;              // some layer of the target has a bias
    bool is_transposed;         // the gradient is accumulated transposed
    bool adds_to_source;        // a later layer has already written gradients of the source
    int completes_layer;  // the layer that wrote the source, if this is the last reader to add to its gradients; or
                          // NO_LAYER
    bool is_completed_by_reader;  // some reader does that for this layer
};

// A recurrent cell: `gates` hold the input's contribution, which a layer writes for all steps at once; the cell then
// runs step by step. Gates are ordered as in torch: minGRU gate, candidate; LSTM in, forget, candidate, out; GRU reset,
// update, candidate.
struct Cell {
    CellKind kind;
    int size;
    int gates, target;  // slots; the target is the hidden state after each step
    Layer recurrent;    // from the hidden state before a step to the gates; unused by minGRU

    // set by Network:
    int hidden;                 // slot: the hidden state before each step
    int cell_state, tanh_cell;  // LSTM slots: the cell state before each step; tanh of the one after it
    std::size_t state;  // offset in a row of states: the hidden state, then the cell state, each of `hidden`'s stride
};

// An embedding table of codes (bytes): the sum over cells of one row each. Code 0 adds nothing, code c adds row c - 1.
struct Table {
    int cells, rows_per_cell, size;
    std::size_t weight;  // offset of the parameters [cells, rows_per_cell, size]
    bool clips_codes;    // larger codes count as `rows_per_cell`; otherwise they are an error
    int target;          // slot

    // set by Network:
    int first_cell;  // offset of its codes in a row of codes
};

// Layer normalization of the sum in a slot, before its activation: (x - mean) / std * weight + bias over each row.
struct Norm {
    int target, size;
    std::size_t weight, bias;  // offsets of the parameters [size]
    float epsilon;             // added to the variance

    // set by Network:
    int normalized;   // slot: (x - mean) / std
    int inverse_std;  // slot of size 1
    std::size_t packed_weight, packed_bias, weight_gradient, bias_gradient;  // [stride of target]
};

struct NetworkLayout {
    const Layer* layers;
    int first_layer, last_layer;  // half-open: all layers, or those of the action or value part
    const Table* tables;
    int table_count;
    int code_count;  // codes in a row: the cells of all tables
    const Cell* cells;
    int cell_count;
    const Norm* norms;
    const int* strides;                                  // of each slot
    const std::size_t* offsets;                          // of each slot's rows in a block of values
    std::size_t packed_size, gradient_size, block_size;  // in floats, of all layers
    std::size_t first_gradient, last_gradient;           // half-open, in a gradient block
    std::size_t state_size;                              // floats in a row of recurrent states
    bool needs_pre_activations;                          // some activation's derivative needs its input
};

// Columns [first, last) of slot 0.
struct InputColumns {
    int first, last;
};

// Samples that pass through the network together: `steps` of `columns` side by side, row = step * columns + column.
struct Block {
    int steps, columns;
    const float* input;      // [rows, stride of slot 0]
    float* values;           // every slot's activations [rows, stride]
    float* pre_activations;  // laid out as `values`; may be null
    const bool* starts;      // [rows] episode starts, where recurrent states are reset; null without cells
    float* states;           // [columns, state_size] before the first step; a forward pass leaves those after the last
    const unsigned char* codes;  // [rows, code_count], each at most its table's `rows_per_cell`; null without tables
    InputColumns input_grads{0, 0};  // whose grads a backward pass computes; needs a network with input gradients
};

struct AdamStep {
    float scale;  // of the gradient: below 1 where its norm is clipped
    float beta1, beta2, epsilon;
    float step_size;                 // learning rate / (1 - beta1^t)
    float inverse_sqrt_correction2;  // 1 / sqrt(1 - beta2^t)
    float decay;                     // 1 - learning rate * weight decay
};

struct LossWeights {
    float clip;
    bool clips_value_loss;
    float value_coefficient, entropy_coefficient;
    float inverse_batch_size;
};

// Sums over samples, from which the update's statistics are computed.
struct LossSums {
    double objective, squared_error, entropy, log_ratio, approx_kl, clip_count;
};

// At most ROWS samples at an action head. Column-major: entry k of sample r is at [k * ROWS + r].
struct HeadRows {
    const int* counts;     // [parts] number of classes
    int parts, size;       // entries of an action; outputs of the network
    int rows;              // up to a whole SIMD vector more is read and written, and ignored
    const float* outputs;  // [rows, stride] of the network
    std::size_t stride;
    const float *log_std, *inverse_std;  // [size], Gaussian
    const int* choices;                  // [parts, ROWS] actions, categorical
    const float* taken;                  // [size, ROWS] actions, Gaussian
    const float* log_probs;              // [ROWS], Gaussian
    float *class_log_probs, *class_probs,
        *entropies;  // [size, ROWS], [size, ROWS], [parts, ROWS]; Gaussian: z-scores in the first
};

// The same samples as recorded during the rollout, each [ROWS].
struct OldSamples {
    const float *log_probs, *values, *advantages, *returns;
};

// Entries of actions tanh(mean + std * noise), those of one action side by side. Whole SIMD vectors are read and
// written.
struct SquashedEntries {
    int count;
    const float *mean, *log_std, *noise;
    float *std, *actions, *log_densities;  // of actions in [-1, 1]
    const float* action_grads;             // d loss / d action
};

// A minibatch at an embedding table.
struct CodeRows {
    int rows;
    const unsigned char* codes;  // [rows, code_row]
    std::size_t code_row;
    const float* grads;  // [rows, grad_row] by the table's target
    std::size_t grad_row;
};

enum OutputMask : int { FOR_ACTION = 1, FOR_VALUE = 2, EVERYTHING = 3 };

// `grads` are gradients of the loss by activations, laid out as a block's values; `gradient` is one by parameters.
struct Kernels {
    const char* name;
    int width;  // floats in a SIMD vector

    // Copies the parameters into the order in which a forward pass reads them.
    void (*pack)(const NetworkLayout& layout, const float* parameters, float* packed);
    void (*forward)(const NetworkLayout& layout, const float* parameters, const float* packed, const Block& block,
                    int output_mask);
    // Adds to `gradient` (a gradient block; null: not computed). `grads` holds those by the output slots and receives
    // those by all other slots, by slot 0 in the SIMD vectors that hold `block.input_grads`.
    void (*backward)(const NetworkLayout& layout, const float* parameters, const float* packed, const Block& block,
                     float* grads, float* gradient);
    // The gradient of the table's cells [first, last), in the order of the parameters.
    void (*table_gradients)(const Table& table, const CodeRows& rows, int first, int last, float* flat);
    // Sums `count` gradient blocks into the first, and writes it in the order of the parameters, except for tables.
    void (*unpack_gradients)(const NetworkLayout& layout, float* gradients, int count, float* flat);
    // Both also used for the loss: acting and learning must compute the same log-probabilities.
    void (*log_softmax)(const HeadRows& head);
    void (*gaussian_log_probs)(const HeadRows& head, float* log_probs);
    // d loss / d outputs [rows, stride], after the above. For `value_loss` the outputs are values.
    void (*categorical_loss)(const HeadRows& head, const OldSamples& old, const LossWeights& weights, float* grads,
                             LossSums& sums);
    void (*gaussian_loss)(const HeadRows& head, const OldSamples& old, const LossWeights& weights, float* grads,
                          float* log_std_grads, LossSums& sums);
    void (*value_loss)(const HeadRows& head, const OldSamples& old, const LossWeights& weights, float* grads,
                       LossSums& sums);
    double (*squared_sum)(const float* numbers, std::size_t count);
    void (*adam)(const AdamStep& step, std::size_t count, float* parameters, float* gradient, float* exp_avg,
                 float* exp_avg_sq);
    void (*squash)(const SquashedEntries& entries);
    // After it: d loss / d mean and d log_std; `by_log_prob` is d loss / d log-probability, the same for all rows.
    void (*squash_backward)(const SquashedEntries& entries, float by_log_prob, float* mean_grads, float* log_std_grads);
    // target += tau * (online - target)
    void (*follow)(float tau, std::size_t count, const float* online, float* target);
};

// The kernels of that name, or the best ones of this CPU if `name` is empty; null if this CPU cannot run them.
const Kernels* find_kernels(const char* name);

}  // namespace engine
