// Recurrent cells (minGRU, LSTM, GRU): the steps of a segment forwards, and backwards through time.
// Internal linkage: every kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#include <cstring>

#include "../kernels.hpp"
#include "layers.hpp"
#include "matmul.hpp"
#include "simd.hpp"

namespace engine {
namespace {

INLINE int rows_left(int first, int rows) { return rows - first < ROWS ? rows - first : ROWS; }

void add_weight_gradients(const NetworkLayout& layout, const Layer& layer, const float* source, const float* grads,
                          float* gradient, int rows) {
    const std::size_t in_stride = layout.strides[layer.source], out_stride = layout.strides[layer.target];
    float* out = gradient + layer.gradient;
    if (layer.is_transposed) {
        product<Init::ADD>(layer.inputs, static_cast<int>(out_stride), rows,
                           {source, 1, in_stride, grads, out_stride, out, out_stride, nullptr, nullptr, nullptr});
    } else {
        product<Init::ADD>(layer.outputs, static_cast<int>(in_stride), rows,
                           {grads, 1, out_stride, source, in_stride, out, in_stride, nullptr, nullptr, nullptr});
    }
}

INLINE float* bias_gradient_of(const Layer& layer, float* gradient) {
    return gradient ? gradient + layer.bias_gradient : nullptr;
}

// Turns grads by a layer's output into grads by its pre-activation, and adds up the gradient of its biases.
void layer_activation_backward(const NetworkLayout& layout, const Layer& layer, const Block& block, float* grads,
                               float* gradient) {
    const std::size_t stride = layout.strides[layer.target];
    const int rows = block.steps * block.columns;
    for (int first = 0; first < rows; first += ROWS) {
        const std::size_t at = layout.offsets[layer.target] + first * stride;
        activation_backward(layer.activation, block.values + at,
                            block.pre_activations ? block.pre_activations + at : nullptr, grads + at,
                            rows_left(first, rows), static_cast<int>(stride), bias_gradient_of(layer, gradient));
    }
}

INLINE const float* source_of(const NetworkLayout& layout, const Layer& layer, const Block& block) {
    return layer.source ? block.values + layout.offsets[layer.source] : block.input;
}

// Adds the gradient of the layer's weights over all rows.
void add_layer_gradients(const NetworkLayout& layout, const Layer& layer, const Block& block, const float* grads,
                         float* gradient) {
    if (!gradient) return;
    const std::size_t in_stride = layout.strides[layer.source], out_stride = layout.strides[layer.target];
    const int rows = block.steps * block.columns;
    for (int first = 0; first < rows; first += ROWS) {
        add_weight_gradients(layout, layer, source_of(layout, layer, block) + first * in_stride,
                             grads + layout.offsets[layer.target] + first * out_stride, gradient,
                             rows_left(first, rows));
    }
}

INLINE Vector sigmoid_of(Vector x) { return 1.0f / (1.0f + exp_of(-x)); }

// One row of a cell's slots.
struct CellRow {
    float *gates, *recurrent, *hidden, *cell_state, *tanh_cell, *target;
};

INLINE CellRow row_of(const NetworkLayout& layout, const Cell& cell, float* values, std::size_t row) {
    const auto at = [&](int slot) { return values + layout.offsets[slot] + row * layout.strides[slot]; };
    const bool is_lstm = cell.kind == CellKind::LSTM;
    return {at(cell.gates),
            cell.kind == CellKind::MINGRU ? nullptr : at(cell.recurrent.target),
            at(cell.hidden),
            is_lstm ? at(cell.cell_state) : nullptr,
            is_lstm ? at(cell.tanh_cell) : nullptr,
            at(cell.target)};
}

// The padding beyond `size` stays zero: every operand is zero there.
INLINE void mingru_forward(int size, const CellRow& row, float* state) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        const Vector gate = sigmoid_of(load_partial(row.gates + k, left));
        const Vector after = gate * load_partial(row.gates + size + k, left) + (1.0f - gate) * load(row.hidden + k);
        store_partial(row.gates + k, gate, left);
        store(row.target + k, after);
        store(state + k, after);
    }
}

INLINE void lstm_forward(int size, int stride, const CellRow& row, float* state) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        float* gates = row.gates + k;
        const Vector input_gate = sigmoid_of(load_partial(gates, left)),
                     forget_gate = sigmoid_of(load_partial(gates + size, left));
        const Vector candidate = tanh_of(load_partial(gates + 2 * size, left));
        const Vector output_gate = sigmoid_of(load_partial(gates + 3 * size, left));
        const Vector cell_state = forget_gate * load(row.cell_state + k) + input_gate * candidate;
        const Vector tanh_cell = tanh_of(cell_state), after = output_gate * tanh_cell;
        store_partial(gates, input_gate, left);
        store_partial(gates + size, forget_gate, left);
        store_partial(gates + 2 * size, candidate, left);
        store_partial(gates + 3 * size, output_gate, left);
        store(row.tanh_cell + k, tanh_cell);
        store(row.target + k, after);
        store(state + k, after);
        store(state + stride + k, cell_state);
    }
}

INLINE void gru_forward(int size, const CellRow& row, float* state) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        float* gates = row.gates + k;
        const float* recurrent = row.recurrent + k;
        const Vector reset = sigmoid_of(load_partial(gates, left) + load_partial(recurrent, left));
        const Vector update = sigmoid_of(load_partial(gates + size, left) + load_partial(recurrent + size, left));
        const Vector candidate =
            tanh_of(load_partial(gates + 2 * size, left) + reset * load_partial(recurrent + 2 * size, left));
        const Vector after = candidate + update * (load(row.hidden + k) - candidate);
        store_partial(gates, reset, left);
        store_partial(gates + size, update, left);
        store_partial(gates + 2 * size, candidate, left);
        store(row.target + k, after);
        store(state + k, after);
    }
}

// Loads the state before a step into its slots, and resets it where an episode starts.
void load_step_state(const NetworkLayout& layout, const Cell& cell, const Block& block, int step) {
    const std::size_t stride = layout.strides[cell.hidden], bytes = stride * sizeof(float);
    const bool is_lstm = cell.kind == CellKind::LSTM;
    for (int column = 0; column < block.columns; ++column) {
        const std::size_t row = static_cast<std::size_t>(step) * block.columns + column;
        float* state = block.states + column * layout.state_size + cell.state;
        if (block.starts[row]) std::memset(state, 0, is_lstm ? 2 * bytes : bytes);
        std::memcpy(block.values + layout.offsets[cell.hidden] + row * stride, state, bytes);
        if (is_lstm) std::memcpy(block.values + layout.offsets[cell.cell_state] + row * stride, state + stride, bytes);
    }
}

void forward_cell(const NetworkLayout& layout, const Cell& cell, const float* packed, const Block& block) {
    const int stride = layout.strides[cell.hidden];
    const Layer& recurrent = cell.recurrent;
    for (int step = 0; step < block.steps; ++step) {
        const std::size_t first = static_cast<std::size_t>(step) * block.columns;
        load_step_state(layout, cell, block, step);
        if (cell.kind != CellKind::MINGRU) {
            const std::size_t out_stride = layout.strides[recurrent.target];
            const float* weight = packed + recurrent.packed;
            const Operands at = {block.values + layout.offsets[cell.hidden] + first * stride,
                                 static_cast<std::size_t>(stride),
                                 1,
                                 weight,
                                 out_stride,
                                 block.values + layout.offsets[recurrent.target] + first * out_stride,
                                 out_stride,
                                 packed + recurrent.packed_bias,
                                 nullptr,
                                 nullptr};
            if (cell.kind == CellKind::LSTM) {
                product<Init::ADD>(block.columns, static_cast<int>(out_stride), recurrent.inputs, at);
            } else {
                product<Init::BIAS>(block.columns, static_cast<int>(out_stride), recurrent.inputs, at);
            }
        }
        for (int column = 0; column < block.columns; ++column) {
            const CellRow row = row_of(layout, cell, block.values, first + column);
            float* state = block.states + column * layout.state_size + cell.state;
            switch (cell.kind) {
                case CellKind::MINGRU: mingru_forward(cell.size, row, state); break;
                case CellKind::LSTM: lstm_forward(cell.size, stride, row, state); break;
                case CellKind::GRU: gru_forward(cell.size, row, state); break;
            }
        }
    }
}

// From the grads by the hidden state after a step to those by the gates and by the state before it. `next`: grads of
// the next step's row; null where the episode or the segment ends.
INLINE void mingru_backward(int size, const CellRow& row, const CellRow& grad, const CellRow* next) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        const Vector gate = load_partial(row.gates + k, left), kept = 1.0f - gate;
        const Vector away = load_partial(row.gates + size + k, left) - load(row.hidden + k);
        Vector after = load(grad.target + k);
        if (next) after += load(next->hidden + k);
        store_partial(grad.gates + k, after * away * (gate * kept), left);
        store_partial(grad.gates + size + k, after * gate, left);
        store(grad.hidden + k, after * kept);
    }
}

INLINE void lstm_backward(int size, const CellRow& row, const CellRow& grad, const CellRow* next) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        const float* gates = row.gates + k;
        float* grads = grad.gates + k;
        const Vector input_gate = load_partial(gates, left), forget_gate = load_partial(gates + size, left);
        const Vector candidate = load_partial(gates + 2 * size, left),
                     output_gate = load_partial(gates + 3 * size, left);
        const Vector tanh_cell = load(row.tanh_cell + k), before = load(row.cell_state + k);
        Vector after = load(grad.target + k);
        if (next) after += load(next->hidden + k);
        Vector cell_state = after * output_gate * (1.0f - tanh_cell * tanh_cell);
        if (next) cell_state += load(next->cell_state + k);
        store_partial(grads, cell_state * candidate * (input_gate * (1.0f - input_gate)), left);
        store_partial(grads + size, cell_state * before * (forget_gate * (1.0f - forget_gate)), left);
        store_partial(grads + 2 * size, cell_state * input_gate * (1.0f - candidate * candidate), left);
        store_partial(grads + 3 * size, after * tanh_cell * (output_gate * (1.0f - output_gate)), left);
        store(grad.cell_state + k, cell_state * forget_gate);
    }
}

INLINE void gru_backward(int size, const CellRow& row, const CellRow& grad, const CellRow* next) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        const float* gates = row.gates + k;
        const Vector reset = load_partial(gates, left), update = load_partial(gates + size, left);
        const Vector candidate = load_partial(gates + 2 * size, left),
                     recurrent = load_partial(row.recurrent + 2 * size + k, left);
        Vector after = load(grad.target + k);
        if (next) after += load(next->hidden + k);
        const Vector candidate_grad = after * (1.0f - update) * (1.0f - candidate * candidate);
        const Vector update_grad = after * (load(row.hidden + k) - candidate) * (update * (1.0f - update));
        const Vector reset_grad = candidate_grad * recurrent * (reset * (1.0f - reset));
        store_partial(grad.gates + k, reset_grad, left);
        store_partial(grad.gates + size + k, update_grad, left);
        store_partial(grad.gates + 2 * size + k, candidate_grad, left);
        store_partial(grad.recurrent + k, reset_grad, left);
        store_partial(grad.recurrent + size + k, update_grad, left);
        store_partial(grad.recurrent + 2 * size + k, candidate_grad * reset, left);
        store(grad.hidden + k, after * update);
    }
}

// The grads by the gates of all steps, and for LSTM and GRU the gradient of the recurrent weights.
void backward_cell(const NetworkLayout& layout, const Cell& cell, const float* parameters, const float* packed,
                   const Block& block, float* grads, float* gradient) {
    const Layer& recurrent = cell.recurrent;
    const std::size_t stride = layout.strides[cell.hidden];
    const bool is_mingru = cell.kind == CellKind::MINGRU;
    for (int step = block.steps - 1; step >= 0; --step) {
        const std::size_t first = static_cast<std::size_t>(step) * block.columns;
        for (std::size_t now = first; now < first + block.columns; ++now) {
            const CellRow row = row_of(layout, cell, block.values, now), grad = row_of(layout, cell, grads, now);
            const std::size_t next_row = now + block.columns;
            const bool continues = step + 1 < block.steps && !block.starts[next_row];
            const CellRow after = continues ? row_of(layout, cell, grads, next_row) : grad;
            const CellRow* next = continues ? &after : nullptr;
            switch (cell.kind) {
                case CellKind::MINGRU: mingru_backward(cell.size, row, grad, next); break;
                case CellKind::LSTM: lstm_backward(cell.size, row, grad, next); break;
                case CellKind::GRU: gru_backward(cell.size, row, grad, next); break;
            }
        }
        if (is_mingru || step == 0) continue;  // gradients stop at the start of a segment
        const std::size_t out_stride = layout.strides[recurrent.target];
        const Operands at = {
            grads + layout.offsets[recurrent.target] + first * out_stride,
            out_stride,
            1,
            recurrent.padded_weight == NO_OFFSET ? parameters + recurrent.weight : packed + recurrent.padded_weight,
            stride,
            grads + layout.offsets[cell.hidden] + first * stride,
            stride,
            nullptr,
            nullptr,
            nullptr};
        if (cell.kind == CellKind::LSTM) {
            product<Init::ZERO>(block.columns, static_cast<int>(stride), recurrent.outputs, at);
        } else {
            product<Init::ADD>(block.columns, static_cast<int>(stride), recurrent.outputs, at);
        }
    }
    if (is_mingru) return;
    // Both biases of an LSTM have the same gradient; the input layer of the gates sums it.
    if (cell.kind == CellKind::GRU) layer_activation_backward(layout, recurrent, block, grads, gradient);
    add_layer_gradients(layout, recurrent, block, grads, gradient);
}

}  // namespace
}  // namespace engine
