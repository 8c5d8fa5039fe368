// Layer normalization with the activation that follows it, and layers that add a slot to another as it is.
// Internal linkage: every kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#include "../kernels.hpp"
#include "layers.hpp"
#include "simd.hpp"

namespace engine {
namespace {

// `vector` in the lanes of the first `count` floats, zero beyond.
INLINE Vector keep_lanes(Vector vector, int count) {
    if (count >= WIDTH) return vector;
    Ints lane;
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH; ++k) lane[k] = k;
    return lane < Ints{} + count ? vector : Vector{};
}

template <Activation ACTIVATION>
INLINE Vector activation_of(Vector x) {
    if constexpr (ACTIVATION == Activation::TANH) return tanh_of(x);
    if constexpr (ACTIVATION == Activation::RELU) return max_of(Vector{}, x);
    return x;
}

// Consecutive rows of a slot.
struct NormRows {
    int size;
    const float *weight, *bias;  // [stride], the padding zero
    float* values;               // [rows, stride]: the sums, then what the activation makes of them
    float* normalized;           // [rows, stride]
    std::size_t stride;
    float* inverse_std;  // [rows, std_stride]
    std::size_t std_stride;
};

INLINE NormRows norm_rows(const NetworkLayout& layout, const Norm& norm, const float* packed, float* values,
                          std::size_t row) {
    const auto at = [&](int slot) { return values + layout.offsets[slot] + row * layout.strides[slot]; };
    return {norm.size,
            packed + norm.packed_weight,
            packed + norm.packed_bias,
            at(norm.target),
            at(norm.normalized),
            static_cast<std::size_t>(layout.strides[norm.target]),
            at(norm.inverse_std),
            static_cast<std::size_t>(layout.strides[norm.inverse_std])};
}

constexpr int NORM_ROWS = 4;  // rows at once, so that the sums of one do not wait for those of another

// Several rows at once. The result of a row does not depend on the others.
template <int HEIGHT, Activation ACTIVATION>
INLINE void norm_forward(const NormRows& at, float epsilon) {
    const float inverse_size = 1.0f / static_cast<float>(at.size);
    Vector sum[HEIGHT] = {}, squares[HEIGHT] = {};
    float mean[HEIGHT], inverse_std[HEIGHT];
    for (int k = 0; k < at.size; k += WIDTH) {
#pragma GCC unroll 4
        for (int i = 0; i < HEIGHT; ++i) sum[i] += load(at.values + i * at.stride + k);
    }
#pragma GCC unroll 4
    for (int i = 0; i < HEIGHT; ++i) mean[i] = horizontal_sum(sum[i]) * inverse_size;
    for (int k = 0; k < at.size; k += WIDTH) {
#pragma GCC unroll 4
        for (int i = 0; i < HEIGHT; ++i) {
            const Vector away = keep_lanes(load(at.values + i * at.stride + k) - mean[i], at.size - k);
            store(at.normalized + i * at.stride + k, away);
            squares[i] += away * away;
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < HEIGHT; ++i) {
        inverse_std[i] = 1.0f / __builtin_sqrtf(horizontal_sum(squares[i]) * inverse_size + epsilon);
        at.inverse_std[i * at.std_stride] = inverse_std[i];
    }
    for (int k = 0; k < at.size; k += WIDTH) {
        const Vector weight = load(at.weight + k), bias = load(at.bias + k);
#pragma GCC unroll 4
        for (int i = 0; i < HEIGHT; ++i) {
            const std::size_t offset = i * at.stride + k;
            const Vector normalized = load(at.normalized + offset) * inverse_std[i];
            store(at.normalized + offset, normalized);
            store(at.values + offset, activation_of<ACTIVATION>(normalized * weight + bias));
        }
    }
}

template <Activation ACTIVATION>
void norm_rows_forward(const NetworkLayout& layout, const Norm& norm, const float* packed, const Block& block) {
    const int rows = block.steps * block.columns;
    int row = 0;
    for (; row + NORM_ROWS <= rows; row += NORM_ROWS) {
        norm_forward<NORM_ROWS, ACTIVATION>(norm_rows(layout, norm, packed, block.values, row), norm.epsilon);
    }
    for (; row < rows; ++row) {
        norm_forward<1, ACTIVATION>(norm_rows(layout, norm, packed, block.values, row), norm.epsilon);
    }
}

void forward_norm(const NetworkLayout& layout, const Layer& layer, const float* packed, const Block& block) {
    const Norm& norm = layout.norms[layer.norm];
    switch (layer.activation) {
        case Activation::NONE: norm_rows_forward<Activation::NONE>(layout, norm, packed, block); break;
        case Activation::TANH: norm_rows_forward<Activation::TANH>(layout, norm, packed, block); break;
        case Activation::RELU: norm_rows_forward<Activation::RELU>(layout, norm, packed, block); break;
        case Activation::GELU: {
            norm_rows_forward<Activation::NONE>(layout, norm, packed, block);
            const std::size_t at = layout.offsets[norm.target];
            const std::size_t rows = static_cast<std::size_t>(block.steps) * block.columns;
            apply_gelu(block.values + at, block.pre_activations ? block.pre_activations + at : nullptr,
                       rows * layout.strides[norm.target]);
            break;
        }
    }
}

// What a row adds to, each [stride].
struct NormGradients {
    float *weight, *bias;  // of the norm
    float* layer_bias;     // of the layers before it; null if they have none
};

INLINE void add_to(float* sums, Vector vector) { store(sums, load(sums) + vector); }

template <Activation ACTIVATION>
INLINE Vector activation_backward_of(Vector grad, Vector value) {
    if constexpr (ACTIVATION == Activation::TANH) return tanh_backward(grad, value);
    if constexpr (ACTIVATION == Activation::RELU) return value > Vector{} ? grad : Vector{};
    return grad;
}

// `grads` [rows, stride] by the activation's output become those by the sum before the norm.
template <int HEIGHT, Activation ACTIVATION, bool HAS_GRADIENT>
INLINE void norm_backward(const NormRows& at, float* grads, const NormGradients& gradient) {
    const float inverse_size = 1.0f / static_cast<float>(at.size);
    Vector sum[HEIGHT] = {}, product_sum[HEIGHT] = {};
    for (int k = 0; k < at.size; k += WIDTH) {
        const Vector weight = load(at.weight + k);
        Vector weight_gradient = Vector{}, bias_gradient = Vector{};
#pragma GCC unroll 4
        for (int i = 0; i < HEIGHT; ++i) {
            const std::size_t offset = i * at.stride + k;
            const Vector grad = activation_backward_of<ACTIVATION>(load(grads + offset), load(at.values + offset));
            const Vector normalized = load(at.normalized + offset), scaled = grad * weight;
            sum[i] += scaled;
            product_sum[i] += scaled * normalized;
            store(grads + offset, scaled);
            weight_gradient += grad * normalized;
            bias_gradient += grad;
        }
        if constexpr (HAS_GRADIENT) {
            add_to(gradient.weight + k, weight_gradient);
            add_to(gradient.bias + k, bias_gradient);
        }
    }
    float mean[HEIGHT], product_mean[HEIGHT];
#pragma GCC unroll 4
    for (int i = 0; i < HEIGHT; ++i) {
        mean[i] = horizontal_sum(sum[i]) * inverse_size;
        product_mean[i] = horizontal_sum(product_sum[i]) * inverse_size;
    }
    for (int k = 0; k < at.size; k += WIDTH) {
        Vector bias_gradient = Vector{};
#pragma GCC unroll 4
        for (int i = 0; i < HEIGHT; ++i) {
            const std::size_t offset = i * at.stride + k;
            const Vector away = load(grads + offset) - mean[i] - load(at.normalized + offset) * product_mean[i];
            const Vector grad = keep_lanes(away * at.inverse_std[i * at.std_stride], at.size - k);
            store(grads + offset, grad);
            bias_gradient += grad;
        }
        if constexpr (HAS_GRADIENT) {
            if (gradient.layer_bias) add_to(gradient.layer_bias + k, bias_gradient);
        }
    }
}

template <Activation ACTIVATION, bool HAS_GRADIENT>
void norm_rows_backward(const NetworkLayout& layout, const Norm& norm, const float* packed, const Block& block,
                        float* grads, const NormGradients& gradient) {
    const std::size_t stride = layout.strides[norm.target];
    const int rows = block.steps * block.columns;
    float* target = grads + layout.offsets[norm.target];
    int row = 0;
    for (; row + NORM_ROWS <= rows; row += NORM_ROWS) {
        norm_backward<NORM_ROWS, ACTIVATION, HAS_GRADIENT>(norm_rows(layout, norm, packed, block.values, row),
                                                           target + row * stride, gradient);
    }
    for (; row < rows; ++row) {
        norm_backward<1, ACTIVATION, HAS_GRADIENT>(norm_rows(layout, norm, packed, block.values, row),
                                                   target + row * stride, gradient);
    }
}

template <bool HAS_GRADIENT>
void backward_norm_of(Activation activation, const NetworkLayout& layout, const Norm& norm, const float* packed,
                      const Block& block, float* grads, const NormGradients& gradient) {
    const std::size_t at = layout.offsets[norm.target];
    switch (activation) {
        case Activation::TANH:
            norm_rows_backward<Activation::TANH, HAS_GRADIENT>(layout, norm, packed, block, grads, gradient);
            break;
        case Activation::RELU:
            norm_rows_backward<Activation::RELU, HAS_GRADIENT>(layout, norm, packed, block, grads, gradient);
            break;
        case Activation::GELU:
            activation_backward(activation, block.values + at, block.pre_activations + at, grads + at,
                                block.steps * block.columns, layout.strides[norm.target], nullptr);
            [[fallthrough]];
        case Activation::NONE:
            norm_rows_backward<Activation::NONE, HAS_GRADIENT>(layout, norm, packed, block, grads, gradient);
            break;
    }
}

void backward_norm(const NetworkLayout& layout, const Layer& layer, const float* packed, const Block& block,
                   float* grads, float* gradient) {
    const Norm& norm = layout.norms[layer.norm];
    if (!gradient) return backward_norm_of<false>(layer.activation, layout, norm, packed, block, grads, {});
    backward_norm_of<true>(layer.activation, layout, norm, packed, block, grads,
                           {gradient + norm.weight_gradient, gradient + norm.bias_gradient,
                            layer.has_bias ? gradient + layer.bias_gradient : nullptr});
}

void forward_identity(const NetworkLayout& layout, const Layer& layer, const float* packed, const Block& block) {
    const std::size_t stride = layout.strides[layer.target];
    const std::size_t rows = static_cast<std::size_t>(block.steps) * block.columns;
    const float* source = layer.source ? block.values + layout.offsets[layer.source] : block.input;
    const float* bias = packed + layer.packed_bias;
    float* out = block.values + layout.offsets[layer.target];
    for (std::size_t row = 0; row < rows; ++row, source += stride, out += stride) {
        for (std::size_t k = 0; k < stride; k += WIDTH) {
            store(out + k, load(source + k) + load(layer.begins ? bias + k : out + k));
        }
    }
    if (!layer.ends || layer.norm != NO_NORM || layer.activation == Activation::NONE) return;
    const std::size_t at = layout.offsets[layer.target];
    activate(layer.activation, block.values + at, block.pre_activations ? block.pre_activations + at : nullptr,
             rows * stride);
}

void backward_identity(const NetworkLayout& layout, const Layer& layer, const Block& block, InputColumns columns,
                       float* grads) {
    const std::size_t stride = layout.strides[layer.target];
    const std::size_t rows = static_cast<std::size_t>(block.steps) * block.columns;
    const float* from = grads + layout.offsets[layer.target];
    float* to = grads + layout.offsets[layer.source];
    for (std::size_t row = 0; row < rows; ++row, from += stride, to += stride) {
        for (int k = columns.first; k < columns.last; k += WIDTH) {
            store(to + k, layer.adds_to_source ? load(to + k) + load(from + k) : load(from + k));
        }
    }
}

}  // namespace
}  // namespace engine
