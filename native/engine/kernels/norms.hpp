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

struct NormRow {
    int size;
    const float *weight, *bias;  // [stride], the padding zero
    float* values;               // [stride]: the sum, then what the activation makes of it
    float* normalized;           // [stride]
    float* inverse_std;          // [1]
};

template <Activation ACTIVATION>
INLINE void norm_row_forward(const NormRow& row, float epsilon) {
    const float inverse_size = 1.0f / static_cast<float>(row.size);
    Vector sum = Vector{}, squares = Vector{};
    for (int k = 0; k < row.size; k += WIDTH) sum += load(row.values + k);
    const float mean = horizontal_sum(sum) * inverse_size;
    for (int k = 0; k < row.size; k += WIDTH) {
        const Vector away = keep_lanes(load(row.values + k) - mean, row.size - k);
        store(row.normalized + k, away);
        squares += away * away;
    }
    const float inverse_std = 1.0f / __builtin_sqrtf(horizontal_sum(squares) * inverse_size + epsilon);
    *row.inverse_std = inverse_std;
    for (int k = 0; k < row.size; k += WIDTH) {
        const Vector normalized = load(row.normalized + k) * inverse_std;
        store(row.normalized + k, normalized);
        store(row.values + k, activation_of<ACTIVATION>(normalized * load(row.weight + k) + load(row.bias + k)));
    }
}

INLINE NormRow norm_row(const NetworkLayout& layout, const Norm& norm, const float* packed, float* values,
                        std::size_t row) {
    const auto at = [&](int slot) { return values + layout.offsets[slot] + row * layout.strides[slot]; };
    return {norm.size,        packed + norm.packed_weight, packed + norm.packed_bias,
            at(norm.target), at(norm.normalized),         at(norm.inverse_std)};
}

template <Activation ACTIVATION>
void norm_rows_forward(const NetworkLayout& layout, const Norm& norm, const float* packed, const Block& block) {
    const int rows = block.steps * block.columns;
    for (int row = 0; row < rows; ++row) {
        norm_row_forward<ACTIVATION>(norm_row(layout, norm, packed, block.values, row), norm.epsilon);
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

// `grad` by the activation's input; `grads` [stride] becomes that by the sum before the norm.
template <bool HAS_GRADIENT>
INLINE void norm_row_backward(const NormRow& row, float* grads, const NormGradients& gradient) {
    const float inverse_size = 1.0f / static_cast<float>(row.size);
    Vector sum = Vector{}, product_sum = Vector{};
    for (int k = 0; k < row.size; k += WIDTH) {
        const Vector grad = load(grads + k), normalized = load(row.normalized + k);
        const Vector scaled = grad * load(row.weight + k);
        sum += scaled;
        product_sum += scaled * normalized;
        store(grads + k, scaled);
        if constexpr (HAS_GRADIENT) {
            add_to(gradient.weight + k, grad * normalized);
            add_to(gradient.bias + k, grad);
        }
    }
    const float mean = horizontal_sum(sum) * inverse_size, product_mean = horizontal_sum(product_sum) * inverse_size;
    const float inverse_std = *row.inverse_std;
    for (int k = 0; k < row.size; k += WIDTH) {
        const Vector away = load(grads + k) - mean - load(row.normalized + k) * product_mean;
        const Vector grad = keep_lanes(away * inverse_std, row.size - k);
        store(grads + k, grad);
        if constexpr (HAS_GRADIENT) {
            if (gradient.layer_bias) add_to(gradient.layer_bias + k, grad);
        }
    }
}

template <bool HAS_GRADIENT>
void norm_rows_backward(const NetworkLayout& layout, const Norm& norm, const float* packed, const Block& block,
                        float* grads, const NormGradients& gradient) {
    const std::size_t stride = layout.strides[norm.target];
    const int rows = block.steps * block.columns;
    for (int row = 0; row < rows; ++row) {
        norm_row_backward<HAS_GRADIENT>(norm_row(layout, norm, packed, block.values, row),
                                        grads + layout.offsets[norm.target] + row * stride, gradient);
    }
}

// Turns grads by the activation's output into grads by the sum before the norm.
void backward_norm(const NetworkLayout& layout, const Layer& layer, const float* packed, const Block& block,
                   float* grads, float* gradient) {
    const Norm& norm = layout.norms[layer.norm];
    const std::size_t at = layout.offsets[norm.target];
    if (layer.activation != Activation::NONE) {
        activation_backward(layer.activation, block.values + at,
                            block.pre_activations ? block.pre_activations + at : nullptr, grads + at,
                            block.steps * block.columns, layout.strides[norm.target], nullptr);
    }
    if (!gradient) return norm_rows_backward<false>(layout, norm, packed, block, grads, {});
    norm_rows_backward<true>(layout, norm, packed, block, grads,
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
