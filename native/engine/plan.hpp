// A network of linear layers, tables and cells as numbers: what is read from where, and where it lies. Plain data, because
// kernels.hpp's functions are compiled several times and must share no inline code with anybody.
#pragma once

#include <cstddef>

namespace engine {

enum class Activation : int { NONE, TANH, RELU, GELU };
enum class Head : int { CHOICES, NORMAL };
enum class CellKind : int { MINGRU, LSTM, GRU };

constexpr int ROWS = 64;    // samples that go through a layer together: their activations stay in the cache
constexpr int SLICE = 512;  // samples whose gradient is one sum; whoever computes it, the sums are added in order
constexpr int NO_CELL = -1;
constexpr int NO_LAYER = -1;
constexpr int NO_TABLE = -1;
constexpr int NARROW_OUTPUTS = 4;  // of a head that is not worth a product, see body_narrow.hpp
constexpr std::size_t NOWHERE = static_cast<std::size_t>(-1);

// Slot 0 is the network's input; every layer reads one slot, or codes, and adds to another. Several may add to the same
// one: a sum, or a layer on vectors side by side, of which each has a block of columns of the weights. Strides are sizes
// rounded up to whole registers; what is beyond the size is always zero.
struct Layer {
    int source, target;
    int inputs, outputs;
    std::size_t weight, bias;  // among the parameters: [outputs, inputs] and [outputs], as torch has them; bias: or NOWHERE
    std::size_t weight_row;    // from one row of weights to the next: inputs, or more in a block of columns
    Activation activation;     // of the target: the same for all that add to it
    int table;                 // that codes choose rows of, instead of source, inputs and weight; or NO_TABLE

    // laid out by Network:
    bool begins, ends;        // the first, the last of those that add to its target
    int cell;                 // that reads what the layer ended; or NO_CELL
    bool is_for_action, is_for_value;
    bool is_narrow;           // the last one before an end of the network, with few outputs
    std::size_t packed;       // [inputs, stride of target], narrow [outputs, stride of source]
    std::size_t packed_bias;  // [stride of target]: all biases of the target, summed
    std::size_t widened;      // [outputs, stride of source]; NOWHERE: the parameters can be read as they are
    std::size_t slope;        // in a block of slopes: [outputs, stride of source], or turned: [inputs, stride of target]
    std::size_t bias_slope;   // [stride of target], the target's
    bool is_turned;
    bool adds_to_source;      // a layer behind it has begun the slopes of its source
    int finishes;             // the layer whose output it reads, where no further one adds to those slopes; or NO_LAYER
    bool is_finished;         // some layer does that for it
};

// Memory: `gates` hold the input's share, which a layer writes for all steps at once; the cell goes from step to step.
// Gates are laid out as torch does: minGRU gate, candidate; LSTM in, forget, new, out; GRU reset, update, new.
struct Cell {
    CellKind kind;
    int size;
    int gates, target;  // slots; the target is the hidden state after each step
    Layer across;       // from the hidden state before a step to the gates; not of minGRU

    // laid out by Network:
    int hidden;         // slot: the hidden state that each step starts from
    int inner, bent;    // slots of LSTM: its inner state that each step starts from; tanh of the one after it
    std::size_t state;  // place in a row of states: the hidden state, then the inner one, each of `hidden`'s stride
};

// Bytes that choose rows of a table, one of each cell's, to be summed: code 0 adds nothing, code c row c - 1.
struct Table {
    int cells, most, size;
    std::size_t place;  // among the parameters: [cells, most, size]
    bool clips;         // larger codes count as `most`; else they are refused
    int target;         // slot

    // laid out by Network:
    int first;          // of its cells in a row of codes
};

struct Plan {
    const Layer* layers;
    int first_layer, last_layer;  // before the last one: all layers, or those of one end of the network
    const Table* tables;
    int table_count;
    int code_count;  // bytes in a row of codes: the cells of all tables
    const Cell* cells;
    int cell_count;
    const int* strides;         // of each slot
    const std::size_t* places;  // of each slot's rows in a block of values
    std::size_t packed_size, slopes_size, block_size;  // in floats, of all layers
    std::size_t first_slope, last_slope;               // before the last one, in a block of slopes
    std::size_t state_size;                            // of a row of states
    bool keeps_inputs_of_activations;                  // some activation's slope cannot be read off its output
};

// What goes through the network together: `steps` of `columns` side by side, row = step * columns + column.
struct Block {
    int steps, columns;
    const float* input;  // [rows, stride of slot 0]
    float* values;       // every slot's [rows, stride]
    float* before;       // what went into activations; may be null
    const bool* starts;  // [rows]: memory from before must not reach this step; null without cells
    float* states;       // [columns, state_size]: before the first step, and after a forward pass behind the last
    const unsigned char* codes;  // [rows, code_count], each at most its table's `most`; null without tables
};

}  // namespace engine
