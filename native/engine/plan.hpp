// A network of linear layers as numbers: what is read from where, and where it lies. Plain data, because kernels.hpp's
// functions are compiled several times and must share no inline code with anybody.
#pragma once

#include <cstddef>

namespace engine {

enum class Activation : int { NONE, TANH, RELU, GELU };
enum class Head : int { CHOICES, NORMAL };

constexpr int ROWS = 64;    // samples that go through the network together: their activations stay in the cache
constexpr int SLICE = 512;  // samples whose gradient is one sum; whoever computes it, the sums are added in order
constexpr std::size_t NOWHERE = static_cast<std::size_t>(-1);

// Slot 0 is the network's input; every layer reads one slot and writes another. Strides are sizes rounded up to whole
// registers; what is beyond the size is always zero.
struct Layer {
    int source, target;
    int inputs, outputs;
    std::size_t weight, bias;  // among the parameters: [outputs, inputs] and [outputs], as torch has them
    Activation activation;
    bool is_for_action, is_for_value;

    // laid out by Network:
    std::size_t packed;       // [inputs, stride of target], then the biases [stride of target]
    std::size_t widened;      // [outputs, stride of source]; NOWHERE: the parameters can be read as they are
    std::size_t slope;        // in a block of slopes: [outputs, stride of source], or turned: [inputs, stride of target]
    std::size_t bias_slope;   // [stride of target]
    bool is_turned;
    bool adds_to_source;      // a layer behind it has begun the slopes of its source
};

struct Plan {
    const Layer* layers;
    int layer_count;
    const int* strides;         // of each slot
    const std::size_t* places;  // of each slot's [ROWS, stride] in a block of activations
    std::size_t packed_size, slopes_size, block_size;  // in floats
    bool keeps_inputs_of_activations;                  // some activation's slope cannot be read off its output
};

}  // namespace engine
