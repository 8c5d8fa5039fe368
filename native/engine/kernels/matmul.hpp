// Products of small matrices: a tile of the result stays in registers, and its epilogue (an activation, or the gradient
// of one) is applied before it is stored. Layers with few outputs have their own kernels. Internal linkage: every
// kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#include "../kernels.hpp"
#include "simd.hpp"

namespace engine {
namespace {

enum class Init { ZERO, ADD, BIAS };
enum class Epilogue { NONE, TANH, RELU, LINEAR_BACKWARD, TANH_BACKWARD, RELU_BACKWARD };

// A value as a type, to select a template.
template <typename T, T VALUE>
struct Constant {
    static constexpr T value = VALUE;
};

constexpr bool is_backward(Epilogue epilogue) { return epilogue >= Epilogue::LINEAR_BACKWARD; }

// Both strides of the left factor are free, so that it can be read transposed; rows of the right factor and of the
// result are contiguous.
struct Operands {
    const float* left;
    std::size_t left_row, left_step;
    const float* right;
    std::size_t right_row;
    float* out;
    std::size_t out_row;
    const float* bias;
    const float* values;  // backward only: the activation's output, laid out as the result
    float* sums;          // backward only: the sum of the result's rows is added to it; may be null
};

template <Epilogue EPILOGUE>
INLINE Vector apply_epilogue(Vector sum, const float* value) {
    if constexpr (EPILOGUE == Epilogue::RELU) return max_of(Vector{}, sum);
    if constexpr (EPILOGUE == Epilogue::TANH_BACKWARD) return tanh_backward(sum, load(value));
    if constexpr (EPILOGUE == Epilogue::RELU_BACKWARD) return load(value) > Vector{} ? sum : Vector{};
    return sum;
}

template <int HEIGHT, int PANEL, Epilogue EPILOGUE>
INLINE void store_tile(const Vector (&sum)[HEIGHT][PANEL], const Operands& at) {
    const TanhTable& table = tanh_table_from_here();
    Vector total[PANEL] = {};
#pragma GCC unroll 8
    for (int i = 0; i < HEIGHT; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) {
            const std::size_t offset = i * at.out_row + j * WIDTH;
            const Vector done =
                EPILOGUE == Epilogue::TANH
                    ? tanh_of(sum[i][j], table)
                    : apply_epilogue<EPILOGUE>(sum[i][j], is_backward(EPILOGUE) ? at.values + offset : nullptr);
            if constexpr (is_backward(EPILOGUE)) total[j] += done;
            store(at.out + offset, done);
        }
    }
    if constexpr (is_backward(EPILOGUE)) {
        if (!at.sums) return;
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) store(at.sums + j * WIDTH, load(at.sums + j * WIDTH) + total[j]);
    }
}

template <int HEIGHT, int PANEL, Init INIT, Epilogue EPILOGUE>
INLINE void tile(int depth, const Operands& at) {
    Vector sum[HEIGHT][PANEL];
#pragma GCC unroll 8
    for (int i = 0; i < HEIGHT; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) {
            if constexpr (INIT == Init::ZERO) sum[i][j] = Vector{};
            if constexpr (INIT == Init::ADD) sum[i][j] = load(at.out + i * at.out_row + j * WIDTH);
            if constexpr (INIT == Init::BIAS) sum[i][j] = load(at.bias + j * WIDTH);
        }
    }
    const float* left = at.left;
    const float* right = at.right;
    for (int k = 0; k < depth; ++k) {
        Vector factor[PANEL];
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) factor[j] = load(right + j * WIDTH);
#pragma GCC unroll 8
        for (int i = 0; i < HEIGHT; ++i) {
            const float number = left[i * at.left_row];
#pragma GCC unroll 2
            for (int j = 0; j < PANEL; ++j) sum[i][j] += number * factor[j];
        }
        left += at.left_step;
        right += at.right_row;
    }
    store_tile<HEIGHT, PANEL, EPILOGUE>(sum, at);
}

template <int PANEL, Init INIT, Epilogue EPILOGUE>
INLINE void panel(int height, int depth, Operands at) {
    for (; height >= 6; height -= 6) {
        tile<6, PANEL, INIT, EPILOGUE>(depth, at);
        at.left += 6 * at.left_row;
        at.out += 6 * at.out_row;
        if constexpr (is_backward(EPILOGUE)) at.values += 6 * at.out_row;
    }
    switch (height) {
        case 5: tile<5, PANEL, INIT, EPILOGUE>(depth, at); break;
        case 4: tile<4, PANEL, INIT, EPILOGUE>(depth, at); break;
        case 3: tile<3, PANEL, INIT, EPILOGUE>(depth, at); break;
        case 2: tile<2, PANEL, INIT, EPILOGUE>(depth, at); break;
        case 1: tile<1, PANEL, INIT, EPILOGUE>(depth, at); break;
        default: break;
    }
}

// out [height, columns] = epilogue(init + left [height, depth] right [depth, columns]); columns are whole SIMD vectors.
template <Init INIT, Epilogue EPILOGUE = Epilogue::NONE>
void product(int height, int columns, int depth, Operands at) {
    int column = 0;
    for (; column + 2 * WIDTH <= columns; column += 2 * WIDTH) {
        panel<2, INIT, EPILOGUE>(height, depth, at);
        at.right += 2 * WIDTH;
        at.out += 2 * WIDTH;
        if constexpr (INIT == Init::BIAS) at.bias += 2 * WIDTH;
        if constexpr (is_backward(EPILOGUE)) {
            at.values += 2 * WIDTH;
            if (at.sums) at.sums += 2 * WIDTH;
        }
    }
    if (column < columns) panel<1, INIT, EPILOGUE>(height, depth, at);
}

// Layers with a handful of outputs (heads): a product would fill most of a SIMD vector with zeros, so the weights stay
// [outputs, stride of source] and each output is a horizontal sum.

constexpr int PANEL = 2;  // SIMD vectors of columns per iteration of a backward pass

template <int HEIGHT, int OUTPUTS, Init INIT>
INLINE void narrow_rows(std::size_t stride, const float* source, const float* weight, const float* bias, float* out,
                        std::size_t out_row) {
    Vector sum[HEIGHT][OUTPUTS] = {};
    for (std::size_t k = 0; k < stride; k += WIDTH) {
#pragma GCC unroll 8
        for (int i = 0; i < HEIGHT; ++i) {
            const Vector value = load(source + i * stride + k);
#pragma GCC unroll 4
            for (int o = 0; o < OUTPUTS; ++o) sum[i][o] += value * load(weight + o * stride + k);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < HEIGHT; ++i) {
#pragma GCC unroll 4
        for (int o = 0; o < OUTPUTS; ++o) {
            float& to = out[i * out_row + o];
            to = horizontal_sum(sum[i][o]) + (INIT == Init::ADD ? to : bias[o]);
        }
    }
}

template <int HEIGHT, int OUTPUTS, Init INIT>
void narrow_forward(int rows, std::size_t stride, const float* source, const float* weight, const float* bias,
                    float* out, std::size_t out_row) {
    int row = 0;
    for (; row + HEIGHT <= rows; row += HEIGHT) {
        narrow_rows<HEIGHT, OUTPUTS, INIT>(stride, source + row * stride, weight, bias, out + row * out_row, out_row);
    }
    for (; row < rows; ++row) {
        narrow_rows<1, OUTPUTS, INIT>(stride, source + row * stride, weight, bias, out + row * out_row, out_row);
    }
}

template <Init INIT>
void forward_narrow(const NetworkLayout& layout, const Layer& layer, const float* packed, const Block& block) {
    const std::size_t stride = layout.strides[layer.source], out_row = layout.strides[layer.target];
    const float* weight = packed + layer.packed;
    const float* bias = packed + layer.packed_bias;
    const float* source = layer.source ? block.values + layout.offsets[layer.source] : block.input;
    float* out = block.values + layout.offsets[layer.target];
    const int rows = block.steps * block.columns;
    switch (layer.outputs) {
        case 1: narrow_forward<8, 1, INIT>(rows, stride, source, weight, bias, out, out_row); break;
        case 2: narrow_forward<4, 2, INIT>(rows, stride, source, weight, bias, out, out_row); break;
        case 3: narrow_forward<3, 3, INIT>(rows, stride, source, weight, bias, out, out_row); break;
        case 4: narrow_forward<2, 4, INIT>(rows, stride, source, weight, bias, out, out_row); break;
        default: break;
    }
}

struct NarrowBackward {
    int rows;
    const float* grads;  // [rows, grad_row] by the outputs
    std::size_t grad_row;
    const float* values;  // [rows, stride] of the source
    const float* weight;  // [outputs, stride]
    float* out;           // [rows, stride]: grads by the source
    float* sums;          // [stride] bias gradient of the source's layer, if the epilogue completes its grads
    float* gradient;      // [outputs, stride]
    std::size_t stride;
};

template <int OUTPUTS, int WIDE, Init INIT, Epilogue EPILOGUE>
INLINE void narrow_panel(const NarrowBackward& at, std::size_t column) {
    Vector weight[OUTPUTS][WIDE], gradient[OUTPUTS][WIDE], total[WIDE] = {};
#pragma GCC unroll 4
    for (int o = 0; o < OUTPUTS; ++o) {
#pragma GCC unroll 2
        for (int j = 0; j < WIDE; ++j) {
            weight[o][j] = load(at.weight + o * at.stride + column + j * WIDTH);
            gradient[o][j] = load(at.gradient + o * at.stride + column + j * WIDTH);
        }
    }
    for (int row = 0; row < at.rows; ++row) {
        const float* grad = at.grads + row * at.grad_row;
#pragma GCC unroll 2
        for (int j = 0; j < WIDE; ++j) {
            const std::size_t offset = row * at.stride + column + j * WIDTH;
            const Vector value = load(at.values + offset);
            Vector sum = INIT == Init::ADD ? load(at.out + offset) : Vector{};
#pragma GCC unroll 4
            for (int o = 0; o < OUTPUTS; ++o) {
                sum += grad[o] * weight[o][j];
                gradient[o][j] += grad[o] * value;
            }
            sum = apply_epilogue<EPILOGUE>(sum, at.values + offset);
            if constexpr (is_backward(EPILOGUE)) total[j] += sum;
            store(at.out + offset, sum);
        }
    }
#pragma GCC unroll 4
    for (int o = 0; o < OUTPUTS; ++o) {
#pragma GCC unroll 2
        for (int j = 0; j < WIDE; ++j) store(at.gradient + o * at.stride + column + j * WIDTH, gradient[o][j]);
    }
    if constexpr (is_backward(EPILOGUE)) {
#pragma GCC unroll 2
        for (int j = 0; j < WIDE; ++j) {
            float* sums = at.sums + column + j * WIDTH;
            store(sums, load(sums) + total[j]);
        }
    }
}

template <int OUTPUTS, Init INIT, Epilogue EPILOGUE>
void narrow_backward(const NarrowBackward& at) {
    std::size_t column = 0;
    for (; column + PANEL * WIDTH <= at.stride; column += PANEL * WIDTH) {
        narrow_panel<OUTPUTS, PANEL, INIT, EPILOGUE>(at, column);
    }
    for (; column < at.stride; column += WIDTH) narrow_panel<OUTPUTS, 1, INIT, EPILOGUE>(at, column);
}

template <Init INIT, Epilogue EPILOGUE>
void backward_narrow(int outputs, const NarrowBackward& at) {
    switch (outputs) {
        case 1: narrow_backward<1, INIT, EPILOGUE>(at); break;
        case 2: narrow_backward<2, INIT, EPILOGUE>(at); break;
        case 3: narrow_backward<3, INIT, EPILOGUE>(at); break;
        case 4: narrow_backward<4, INIT, EPILOGUE>(at); break;
        default: break;
    }
}

}  // namespace
}  // namespace engine
