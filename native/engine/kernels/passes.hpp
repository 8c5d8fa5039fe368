// Forward and backward passes through a whole network.
// Internal linkage: every kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#include <cstring>

#include "../kernels.hpp"
#include "layers.hpp"
#include "matmul.hpp"
#include "norms.hpp"
#include "recurrent.hpp"
#include "simd.hpp"

namespace engine {
namespace {

// to [rows, to_row] = from [rows, from_row] for the first `columns`; the padding is not written.
void copy_rows(std::size_t rows, std::size_t columns, const float* from, std::size_t from_row, float* to,
               std::size_t to_row) {
    if (columns == from_row && columns == to_row) {
        std::memcpy(to, from, rows * columns * sizeof(float));
        return;
    }
    for (std::size_t row = 0; row < rows; ++row) {
        std::memcpy(to + row * to_row, from + row * from_row, columns * sizeof(float));
    }
}

void add_numbers(const float* from, float* to, int count) {
    for (int k = 0; k < count; ++k) to[k] += from[k];
}

void pack_bias(const Layer& layer, const float* parameters, float* packed) {
    float* bias = packed + layer.packed_bias;
    if (layer.begins) std::memset(bias, 0, layer.outputs * sizeof(float));
    if (layer.bias != NO_OFFSET) add_numbers(parameters + layer.bias, bias, layer.outputs);
}

void pack_layer(const NetworkLayout& layout, const Layer& layer, const float* parameters, float* packed) {
    const std::size_t out_stride = layout.strides[layer.target], in_stride = layout.strides[layer.source];
    const float* weight = parameters + layer.weight;
    if (!layer.is_narrow) {
        transpose(layer.outputs, layer.inputs, weight, layer.weight_row, packed + layer.packed, out_stride);
    }
    if (layer.padded_weight != NO_OFFSET) {
        copy_rows(layer.outputs, layer.inputs, weight, layer.weight_row, packed + layer.padded_weight, in_stride);
    }
}

void pack_norm(const Norm& norm, const float* parameters, float* packed) {
    std::memcpy(packed + norm.packed_weight, parameters + norm.weight, norm.size * sizeof(float));
    std::memcpy(packed + norm.packed_bias, parameters + norm.bias, norm.size * sizeof(float));
}

INLINE bool has_weights(const Layer& layer) { return layer.table == NO_TABLE && !layer.is_identity; }

void pack(const NetworkLayout& layout, const float* parameters, float* packed) {
    for (int number = layout.first_layer; number < layout.last_layer; ++number) {
        const Layer& layer = layout.layers[number];
        pack_bias(layer, parameters, packed);
        if (has_weights(layer)) pack_layer(layout, layer, parameters, packed);
        if (layer.norm != NO_NORM) pack_norm(layout.norms[layer.norm], parameters, packed);
        if (layer.cell == NO_CELL) continue;
        const Cell& cell = layout.cells[layer.cell];
        if (cell.kind == CellKind::MINGRU) continue;
        pack_layer(layout, cell.recurrent, parameters, packed);
        pack_bias(cell.recurrent, parameters, packed);
    }
}

template <Init INIT>
INLINE void forward_product(Activation activation, int rows, int columns, int depth, const Operands& at) {
    switch (activation) {
        case Activation::TANH: product<INIT, Epilogue::TANH>(rows, columns, depth, at); break;
        case Activation::RELU: product<INIT, Epilogue::RELU>(rows, columns, depth, at); break;
        default: product<INIT>(rows, columns, depth, at); break;
    }
}

void forward_layer(const NetworkLayout& layout, const Layer& layer, const float* packed, const Block& block) {
    const Activation activation = layer.ends && layer.norm == NO_NORM ? layer.activation : Activation::NONE;
    const std::size_t in_stride = layout.strides[layer.source], out_stride = layout.strides[layer.target];
    const int columns = static_cast<int>(out_stride), rows = block.steps * block.columns;
    const float* weight = packed + layer.packed;
    for (int first = 0; first < rows; first += ROWS) {
        const int some = rows_left(first, rows);
        const std::size_t offset = layout.offsets[layer.target] + first * out_stride;
        const Operands at = {source_of(layout, layer, block) + first * in_stride,
                             in_stride,
                             1,
                             weight,
                             out_stride,
                             block.values + offset,
                             out_stride,
                             packed + layer.packed_bias,
                             nullptr,
                             nullptr};
        if (layer.begins) {
            forward_product<Init::BIAS>(activation, some, columns, layer.inputs, at);
        } else {
            forward_product<Init::ADD>(activation, some, columns, layer.inputs, at);
        }
        if (activation != Activation::GELU) continue;
        apply_gelu(block.values + offset, block.pre_activations ? block.pre_activations + offset : nullptr,
                   some * out_stride);
    }
}

void forward(const NetworkLayout& layout, const float* parameters, const float* packed, const Block& block,
             int output_mask) {
    for (int number = layout.first_layer; number < layout.last_layer; ++number) {
        const Layer& layer = layout.layers[number];
        const int layer_outputs = (layer.is_for_action ? FOR_ACTION : 0) | (layer.is_for_value ? FOR_VALUE : 0);
        if (!(layer_outputs & output_mask)) continue;
        if (layer.table != NO_TABLE) {
            forward_table(layout, layer, parameters, packed, block);
        } else if (layer.is_identity) {
            forward_identity(layout, layer, packed, block);
        } else if (layer.is_narrow) {
            layer.begins ? forward_narrow<Init::BIAS>(layout, layer, packed, block)
                         : forward_narrow<Init::ADD>(layout, layer, packed, block);
        } else {
            forward_layer(layout, layer, packed, block);
        }
        if (layer.norm != NO_NORM) forward_norm(layout, layer, packed, block);
        if (layer.cell != NO_CELL) forward_cell(layout, layout.cells[layer.cell], packed, block);
    }
}

// Whether the backward product also applies the derivative of its source's activation; GELU's is applied separately.
INLINE Epilogue epilogue_of(const NetworkLayout& layout, const Layer& layer) {
    if (layer.completes_layer == NO_LAYER) return Epilogue::NONE;
    switch (layout.layers[layer.completes_layer].activation) {
        case Activation::NONE: return Epilogue::LINEAR_BACKWARD;
        case Activation::TANH: return Epilogue::TANH_BACKWARD;
        case Activation::RELU: return Epilogue::RELU_BACKWARD;
        default: return Epilogue::NONE;
    }
}

template <typename Each>
INLINE void with_init(bool adds, const Each& each) {
    adds ? each(Constant<Init, Init::ADD>{}) : each(Constant<Init, Init::ZERO>{});
}

template <typename Each>
INLINE void with_epilogue(Epilogue epilogue, const Each& each) {
    switch (epilogue) {
        case Epilogue::LINEAR_BACKWARD: each(Constant<Epilogue, Epilogue::LINEAR_BACKWARD>{}); break;
        case Epilogue::TANH_BACKWARD: each(Constant<Epilogue, Epilogue::TANH_BACKWARD>{}); break;
        case Epilogue::RELU_BACKWARD: each(Constant<Epilogue, Epilogue::RELU_BACKWARD>{}); break;
        default: each(Constant<Epilogue, Epilogue::NONE>{}); break;
    }
}

INLINE float* completed_bias_gradient(const NetworkLayout& layout, const Layer& layer, float* gradient) {
    if (layer.completes_layer == NO_LAYER) return nullptr;
    return bias_gradient_of(layout.layers[layer.completes_layer], gradient);
}

void backward_narrow_layer(const NetworkLayout& layout, const Layer& layer, const float* packed, const Block& block,
                           float* grads, float* gradient) {
    const std::size_t read = layout.offsets[layer.source];
    const NarrowBackward at = {
        block.steps * block.columns,
        grads + layout.offsets[layer.target],
        static_cast<std::size_t>(layout.strides[layer.target]),
        block.values + read,
        packed + layer.packed,
        grads + read,
        completed_bias_gradient(layout, layer, gradient),
        gradient + layer.gradient,
        static_cast<std::size_t>(layout.strides[layer.source])};
    with_init(layer.adds_to_source, [&](auto init) {
        with_epilogue(epilogue_of(layout, layer), [&](auto epilogue) {
            backward_narrow<decltype(init)::value, decltype(epilogue)::value>(layer.outputs, at);
        });
    });
}

// The columns of the source whose grads are computed, as whole SIMD vectors.
INLINE InputColumns grad_columns(const NetworkLayout& layout, const Layer& layer, const Block& block) {
    if (layer.source) return {0, layout.strides[layer.source]};
    return {block.input_grads.first / WIDTH * WIDTH, (block.input_grads.last + WIDTH - 1) / WIDTH * WIDTH};
}

void backward_layer(const NetworkLayout& layout, const Layer& layer, const float* parameters, const float* packed,
                    const Block& block, float* grads, float* gradient) {
    add_layer_gradients(layout, layer, block, grads, gradient);
    const InputColumns columns = grad_columns(layout, layer, block);
    const int width = columns.last - columns.first;
    if (width <= 0) return;
    const bool is_in_place = layer.padded_weight == NO_OFFSET;
    const float* weight = is_in_place ? parameters + layer.weight : packed + layer.padded_weight;
    const std::size_t in_stride = layout.strides[layer.source], out_stride = layout.strides[layer.target];
    const int rows = block.steps * block.columns;
    for (int first = 0; first < rows; first += ROWS) {
        const std::size_t read = layout.offsets[layer.source] + first * in_stride + columns.first;
        const Operands at = {grads + layout.offsets[layer.target] + first * out_stride,
                             out_stride,
                             1,
                             weight + columns.first,
                             is_in_place ? layer.weight_row : in_stride,
                             grads + read,
                             in_stride,
                             nullptr,
                             block.values + read,
                             completed_bias_gradient(layout, layer, gradient)};
        with_init(layer.adds_to_source, [&](auto init) {
            with_epilogue(epilogue_of(layout, layer), [&](auto epilogue) {
                product<decltype(init)::value, decltype(epilogue)::value>(rows_left(first, rows), width, layer.outputs,
                                                                          at);
            });
        });
    }
}

void backward(const NetworkLayout& layout, const float* parameters, const float* packed, const Block& block,
              float* grads, float* gradient) {
    for (int number = layout.last_layer - 1; number >= layout.first_layer; --number) {
        const Layer& layer = layout.layers[number];
        if (layer.cell != NO_CELL) {
            backward_cell(layout, layout.cells[layer.cell], parameters, packed, block, grads, gradient);
        }
        if (layer.norm != NO_NORM) {
            backward_norm(layout, layer, packed, block, grads, gradient);
        } else if (layer.ends && (!layer.is_completed_by_reader || layer.activation == Activation::GELU) &&
                   (layer.has_bias || layer.activation != Activation::NONE)) {
            layer_activation_backward(layout, layer, block, grads, gradient);
        }
        if (layer.table != NO_TABLE) continue;  // table_gradients handles a whole minibatch at once
        if (layer.is_identity) {
            backward_identity(layout, layer, block, grad_columns(layout, layer, block), grads);
        } else if (layer.is_narrow && layer.source && gradient) {
            backward_narrow_layer(layout, layer, packed, block, grads, gradient);
        } else {
            backward_layer(layout, layer, parameters, packed, block, grads, gradient);
        }
    }
}

// Sums all gradient blocks into the first.
void sum_gradient_blocks(const NetworkLayout& layout, float* gradients, int count) {
    for (int block = 1; block < count; ++block) {
        const float* other = gradients + block * layout.gradient_size;
        for (std::size_t k = layout.first_gradient; k < layout.last_gradient; ++k) gradients[k] += other[k];
    }
}

void unpack_layer_gradient(const NetworkLayout& layout, const Layer& layer, const float* gradient, float* flat) {
    const std::size_t in_stride = layout.strides[layer.source], out_stride = layout.strides[layer.target];
    const float* from = gradient + layer.gradient;
    float* to = flat + layer.weight;
    if (layer.is_transposed) {
        transpose(layer.inputs, layer.outputs, from, out_stride, to, layer.weight_row);
    } else {
        copy_rows(layer.outputs, layer.inputs, from, in_stride, to, layer.weight_row);
    }
}

void unpack_bias_gradient(const Layer& layer, const float* gradient, float* flat) {
    if (layer.bias == NO_OFFSET) return;
    std::memcpy(flat + layer.bias, gradient + layer.bias_gradient, layer.outputs * sizeof(float));
}

void unpack_norm_gradients(const Norm& norm, const float* gradient, float* flat) {
    std::memcpy(flat + norm.weight, gradient + norm.weight_gradient, norm.size * sizeof(float));
    std::memcpy(flat + norm.bias, gradient + norm.bias_gradient, norm.size * sizeof(float));
}

void unpack_gradients(const NetworkLayout& layout, float* gradients, int count, float* flat) {
    sum_gradient_blocks(layout, gradients, count);
    for (int number = layout.first_layer; number < layout.last_layer; ++number) {
        const Layer& layer = layout.layers[number];
        unpack_bias_gradient(layer, gradients, flat);
        if (has_weights(layer)) unpack_layer_gradient(layout, layer, gradients, flat);
        if (layer.norm != NO_NORM) unpack_norm_gradients(layout.norms[layer.norm], gradients, flat);
    }
    for (int number = 0; number < layout.cell_count; ++number) {
        const Cell& cell = layout.cells[number];
        if (cell.kind == CellKind::MINGRU) continue;
        unpack_layer_gradient(layout, cell.recurrent, gradients, flat);
        unpack_bias_gradient(cell.recurrent, gradients, flat);
    }
}

}  // namespace
}  // namespace engine
