// Activations of whole rows, where a product could not apply them as its epilogue, and embedding tables.
// Internal linkage: every kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#include <cstring>

#include "../kernels.hpp"
#include "simd.hpp"

namespace engine {
namespace {

inline float gelu_of(float x) { return 0.5f * x * (1.0f + __builtin_erff(x * 0.70710678f)); }

inline float gelu_derivative(float x) {
    const float cdf = 0.5f * (1.0f + __builtin_erff(x * 0.70710678f));
    return cdf + x * 0.39894228f * __builtin_expf(-0.5f * x * x);
}

void apply_gelu(float* values, float* pre_activations, std::size_t count) {
    if (pre_activations) std::memcpy(pre_activations, values, count * sizeof(float));
    for (std::size_t k = 0; k < count; ++k) values[k] = gelu_of(values[k]);
}

// Turns grads [rows, stride] by an activation's output into grads by its input; adds their sums over rows to `sums`,
// which may be null.
template <typename Through>
INLINE void backward_rows(float* grads, int rows, int stride, float* sums, const Through& backward_at) {
    for (int column = 0; column < stride; column += WIDTH) {
        Vector sum = Vector{};
        for (int row = 0; row < rows; ++row) {
            const std::size_t at = static_cast<std::size_t>(row) * stride + column;
            const Vector grad = backward_at(load(grads + at), at);
            store(grads + at, grad);
            sum += grad;
        }
        if (sums) store(sums + column, load(sums + column) + sum);
    }
}

void activation_backward(Activation activation, const float* values, const float* pre_activations, float* grads,
                         int rows, int stride, float* sums) {
    switch (activation) {
        case Activation::NONE:
            backward_rows(grads, rows, stride, sums, [&](Vector grad, std::size_t) { return grad; });
            break;
        case Activation::TANH:
            backward_rows(grads, rows, stride, sums,
                          [&](Vector grad, std::size_t at) { return tanh_backward(grad, load(values + at)); });
            break;
        case Activation::RELU:
            backward_rows(grads, rows, stride, sums,
                          [&](Vector grad, std::size_t at) { return load(values + at) > Vector{} ? grad : Vector{}; });
            break;
        case Activation::GELU:
            backward_rows(grads, rows, stride, sums, [&](Vector grad, std::size_t at) {
                Vector derivative;
                for (int k = 0; k < WIDTH; ++k) derivative[k] = gelu_derivative(pre_activations[at + k]);
                return grad * derivative;
            });
            break;
    }
}

// Embedding tables: the result of a product with one-hot cells, without most of its multiplications. Nonzero codes are
// listed first, which avoids a branch that is hard to predict.

constexpr int CODES_AT_ONCE = 256;
constexpr int SUMS = 8;  // sums held in registers while the selected rows are added

// out [columns] += the selected rows of the table, for whole SIMD vectors from `column` on.
template <int PANELS>
INLINE void add_row_columns(const float* const* selected, int count, std::size_t column, float* out) {
    Vector sum[PANELS];
#pragma GCC unroll 8
    for (int j = 0; j < PANELS; ++j) sum[j] = load(out + column + j * WIDTH);
    for (int k = 0; k < count; ++k) {
        const float* row = selected[k] + column;
#pragma GCC unroll 8
        for (int j = 0; j < PANELS; ++j) sum[j] += load(row + j * WIDTH);
    }
#pragma GCC unroll 8
    for (int j = 0; j < PANELS; ++j) store(out + column + j * WIDTH, sum[j]);
}

void add_table_rows(const float* const* selected, int count, int size, float* out) {
    int column = 0;
    for (; column + SUMS * WIDTH <= size; column += SUMS * WIDTH) add_row_columns<SUMS>(selected, count, column, out);
    for (; column + WIDTH <= size; column += WIDTH) add_row_columns<1>(selected, count, column, out);
    if (column == size) return;
    Vector sum = load(out + column);
    for (int k = 0; k < count; ++k) sum += load_partial(selected[k] + column, size - column);
    store(out + column, sum);
}

// For a target whose last layer is no product, so that there is no epilogue.
void activate(Activation activation, float* values, float* pre_activations, std::size_t count) {
    if (activation == Activation::GELU) return apply_gelu(values, pre_activations, count);
    for (std::size_t k = 0; k < count; k += WIDTH) {
        const Vector value = load(values + k);
        if (activation == Activation::TANH) store(values + k, tanh_of(value));
        if (activation == Activation::RELU) store(values + k, max_of(Vector{}, value));
    }
}

void forward_table(const NetworkLayout& layout, const Layer& layer, const float* parameters, const float* packed,
                   const Block& block) {
    const Table& table = layout.tables[layer.table];
    const std::size_t stride = layout.strides[layer.target],
                      cell_size = static_cast<std::size_t>(table.rows_per_cell) * table.size;
    const int rows = block.steps * block.columns;
    float* out = block.values + layout.offsets[layer.target];
    const float* selected[CODES_AT_ONCE];
    for (int row = 0; row < rows; ++row) {
        const unsigned char* codes = block.codes + static_cast<std::size_t>(row) * layout.code_count + table.first_cell;
        float* sums = out + row * stride;
        if (layer.begins) std::memcpy(sums, packed + layer.packed_bias, stride * sizeof(float));
        for (int first = 0; first < table.cells; first += CODES_AT_ONCE) {
            const int last = table.cells - first < CODES_AT_ONCE ? table.cells : first + CODES_AT_ONCE;
            const float* entry = parameters + table.weight + first * cell_size;
            int count = 0;
            for (int cell = first; cell < last; ++cell, entry += cell_size) {
                const int is_nonzero = codes[cell] != 0;
                selected[count] = entry + static_cast<std::size_t>(codes[cell] - is_nonzero) * table.size;
                count += is_nonzero;
            }
            add_table_rows(selected, count, table.size, sums);
        }
    }
    if (!layer.ends || layer.norm != NO_NORM || layer.activation == Activation::NONE) return;
    activate(layer.activation, out,
             block.pre_activations ? block.pre_activations + layout.offsets[layer.target] : nullptr, rows * stride);
}

INLINE void add_to_table_row(const float* grad, float* entry, int size) {
    int column = 0;
    for (; column + WIDTH <= size; column += WIDTH) store(entry + column, load(entry + column) + load(grad + column));
    for (; column < size; ++column) entry[column] += grad[column];
}

// Cell by cell: a cell's rows of the table stay in the L1 cache, and every table row adds its grads in the order of the
// samples, however cells are split over threads.
void table_gradients(const Table& table, const CodeRows& at, int first, int last, float* flat) {
    const std::size_t cell_size = static_cast<std::size_t>(table.rows_per_cell) * table.size;
    int selected[CODES_AT_ONCE];
    for (int cell = first; cell < last; ++cell) {
        const unsigned char* codes = at.codes + table.first_cell + cell;
        float* out = flat + table.weight + cell * cell_size;
        std::memset(out, 0, cell_size * sizeof(float));
        for (int begin = 0; begin < at.rows; begin += CODES_AT_ONCE) {
            const int end = at.rows - begin < CODES_AT_ONCE ? at.rows : begin + CODES_AT_ONCE;
            int count = 0;
            for (int row = begin; row < end; ++row) {
                selected[count] = row;
                count += codes[row * at.code_row] != 0;
            }
            for (int k = 0; k < count; ++k) {
                const std::size_t row = selected[k];
                add_to_table_row(at.grads + row * at.grad_row, out + (codes[row * at.code_row] - 1) * table.size,
                                 table.size);
            }
        }
    }
}

}  // namespace
}  // namespace engine
