// Included by each variant_*.cpp with PALAESTRA_WIDTH and PALAESTRA_VARIANT set. Everything has internal linkage and
// nothing comes from the standard library's templates: a function compiled for a new processor must never be the one
// that the linker keeps for an old one.

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.hpp"
#include "tanh_fit.hpp"

namespace engine {
namespace {

#include "body_vectors.hpp"
#include "body_products.hpp"
#include "body_activations.hpp"
#include "body_turning.hpp"
#include "body_narrow.hpp"
#include "body_heads.hpp"
#include "body_codes.hpp"

INLINE int rows_from(int first, int rows) { return rows - first < ROWS ? rows - first : ROWS; }

void add_weight_slopes(const Plan& plan, const Layer& layer, const float* source, const float* slopes, float* gradient,
                       int rows) {
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    float* out = gradient + layer.slope;
    if (layer.is_turned) {
        product<Start::ADD>(layer.inputs, static_cast<int>(out_stride), rows,
                            {source, 1, in_stride, slopes, out_stride, out, out_stride, nullptr, nullptr, nullptr});
    } else {
        product<Start::ADD>(layer.outputs, static_cast<int>(in_stride), rows,
                            {slopes, 1, out_stride, source, in_stride, out, in_stride, nullptr, nullptr, nullptr});
    }
}

// The slopes of what a layer gave become those of what went into its activation, and are summed for its biases.
void close_slopes(const Plan& plan, const Layer& layer, const Block& block, float* slopes, float* gradient) {
    const std::size_t stride = plan.strides[layer.target];
    const int rows = block.steps * block.columns;
    for (int first = 0; first < rows; first += ROWS) {
        const std::size_t at = plan.places[layer.target] + first * stride;
        deactivate(layer.activation, block.values + at, block.before ? block.before + at : nullptr, slopes + at,
                   rows_from(first, rows), static_cast<int>(stride), gradient + layer.bias_slope);
    }
}

INLINE const float* source_of(const Plan& plan, const Layer& layer, const Block& block) {
    return layer.source ? block.values + plan.places[layer.source] : block.input;
}

// What the slopes of all rows mean for the layer's weights.
void add_layer_slopes(const Plan& plan, const Layer& layer, const Block& block, const float* slopes, float* gradient) {
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    const int rows = block.steps * block.columns;
    for (int first = 0; first < rows; first += ROWS) {
        add_weight_slopes(plan, layer, source_of(plan, layer, block) + first * in_stride,
                          slopes + plan.places[layer.target] + first * out_stride, gradient, rows_from(first, rows));
    }
}

#include "body_cells.hpp"

// to [rows, to_row] = from [rows, from_row], of which `columns` count; what is beyond stays as it is.
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
    if (layer.bias != NOWHERE) add_numbers(parameters + layer.bias, bias, layer.outputs);
}

void pack_layer(const Plan& plan, const Layer& layer, const float* parameters, float* packed) {
    const std::size_t out_stride = plan.strides[layer.target], in_stride = plan.strides[layer.source];
    const float* weight = parameters + layer.weight;
    if (!layer.is_narrow) {
        turn(layer.outputs, layer.inputs, weight, layer.weight_row, packed + layer.packed, out_stride);
    }
    if (layer.widened != NOWHERE) {
        copy_rows(layer.outputs, layer.inputs, weight, layer.weight_row, packed + layer.widened, in_stride);
    }
}

void pack(const Plan& plan, const float* parameters, float* packed) {
    for (int number = plan.first_layer; number < plan.last_layer; ++number) {
        const Layer& layer = plan.layers[number];
        pack_bias(layer, parameters, packed);
        if (layer.table == NO_TABLE) pack_layer(plan, layer, parameters, packed);
        if (layer.cell == NO_CELL) continue;
        const Cell& cell = plan.cells[layer.cell];
        if (cell.kind == CellKind::MINGRU) continue;
        pack_layer(plan, cell.across, parameters, packed);
        pack_bias(cell.across, parameters, packed);
    }
}

template <Start START>
INLINE void forward_product(Activation activation, int rows, int columns, int depth, const Operands& at) {
    switch (activation) {
        case Activation::TANH: product<START, Finish::TANH>(rows, columns, depth, at); break;
        case Activation::RELU: product<START, Finish::RELU>(rows, columns, depth, at); break;
        default: product<START>(rows, columns, depth, at); break;
    }
}

void forward_layer(const Plan& plan, const Layer& layer, const float* packed, const Block& block) {
    const Activation activation = layer.ends ? layer.activation : Activation::NONE;
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    const int columns = static_cast<int>(out_stride), rows = block.steps * block.columns;
    const float* turned = packed + layer.packed;
    for (int first = 0; first < rows; first += ROWS) {
        const int some = rows_from(first, rows);
        const std::size_t place = plan.places[layer.target] + first * out_stride;
        const Operands at = {source_of(plan, layer, block) + first * in_stride,
                             in_stride,
                             1,
                             turned,
                             out_stride,
                             block.values + place,
                             out_stride,
                             packed + layer.packed_bias,
                             nullptr,
                             nullptr};
        if (layer.begins) {
            forward_product<Start::BIAS>(activation, some, columns, layer.inputs, at);
        } else {
            forward_product<Start::ADD>(activation, some, columns, layer.inputs, at);
        }
        if (activation != Activation::GELU) continue;
        bend_gelu(block.values + place, block.before ? block.before + place : nullptr, some * out_stride);
    }
}

void forward(const Plan& plan, const float* parameters, const float* packed, const Block& block, int wanted) {
    for (int number = plan.first_layer; number < plan.last_layer; ++number) {
        const Layer& layer = plan.layers[number];
        const int needed = (layer.is_for_action ? FOR_ACTION : 0) | (layer.is_for_value ? FOR_VALUE : 0);
        if (!(needed & wanted)) continue;
        if (layer.table != NO_TABLE) {
            forward_codes(plan, layer, parameters, packed, block);
        } else if (layer.is_narrow) {
            layer.begins ? forward_narrow<Start::BIAS>(plan, layer, packed, block)
                         : forward_narrow<Start::ADD>(plan, layer, packed, block);
        } else {
            forward_layer(plan, layer, packed, block);
        }
        if (layer.cell != NO_CELL) forward_cell(plan, plan.cells[layer.cell], packed, block);
    }
}

// How a reader leaves the slopes of what it reads; GELU's are closed apart.
INLINE Finish finish_of(const Plan& plan, const Layer& layer) {
    if (layer.finishes == NO_LAYER) return Finish::NONE;
    switch (plan.layers[layer.finishes].activation) {
        case Activation::NONE: return Finish::LINEAR_SLOPE;
        case Activation::TANH: return Finish::TANH_SLOPE;
        case Activation::RELU: return Finish::RELU_SLOPE;
        default: return Finish::NONE;
    }
}

template <typename Each>
INLINE void with_start(bool adds, const Each& each) {
    adds ? each(Choice<Start, Start::ADD>{}) : each(Choice<Start, Start::ZERO>{});
}

template <typename Each>
INLINE void with_finish(Finish finish, const Each& each) {
    switch (finish) {
        case Finish::LINEAR_SLOPE: each(Choice<Finish, Finish::LINEAR_SLOPE>{}); break;
        case Finish::TANH_SLOPE: each(Choice<Finish, Finish::TANH_SLOPE>{}); break;
        case Finish::RELU_SLOPE: each(Choice<Finish, Finish::RELU_SLOPE>{}); break;
        default: each(Choice<Finish, Finish::NONE>{}); break;
    }
}

// What a layer's slopes mean for its weights and for what it read.
void backward_narrow_layer(const Plan& plan, const Layer& layer, const float* packed, const Block& block, float* slopes,
                           float* gradient) {
    const std::size_t read = plan.places[layer.source];
    const NarrowSlopes at = {block.steps * block.columns,
                             slopes + plan.places[layer.target],
                             static_cast<std::size_t>(plan.strides[layer.target]),
                             block.values + read,
                             packed + layer.packed,
                             slopes + read,
                             layer.finishes == NO_LAYER ? nullptr : gradient + plan.layers[layer.finishes].bias_slope,
                             gradient + layer.slope,
                             static_cast<std::size_t>(plan.strides[layer.source])};
    with_start(layer.adds_to_source, [&](auto start) {
        with_finish(finish_of(plan, layer), [&](auto finish) {
            backward_narrow<decltype(start)::value, decltype(finish)::value>(layer.outputs, at);
        });
    });
}

void backward_layer(const Plan& plan, const Layer& layer, const float* parameters, const float* packed,
                    const Block& block, float* slopes, float* gradient) {
    add_layer_slopes(plan, layer, block, slopes, gradient);
    if (layer.source == 0) return;
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    const int rows = block.steps * block.columns;
    for (int first = 0; first < rows; first += ROWS) {
        const std::size_t read = plan.places[layer.source] + first * in_stride;
        const Operands at = {slopes + plan.places[layer.target] + first * out_stride,
                             out_stride,
                             1,
                             layer.widened == NOWHERE ? parameters + layer.weight : packed + layer.widened,
                             layer.widened == NOWHERE ? layer.weight_row : in_stride,
                             slopes + read,
                             in_stride,
                             nullptr,
                             block.values + read,
                             layer.finishes == NO_LAYER ? nullptr : gradient + plan.layers[layer.finishes].bias_slope};
        with_start(layer.adds_to_source, [&](auto start) {
            with_finish(finish_of(plan, layer), [&](auto finish) {
                product<decltype(start)::value, decltype(finish)::value>(rows_from(first, rows),
                                                                          static_cast<int>(in_stride), layer.outputs, at);
            });
        });
    }
}

void backward(const Plan& plan, const float* parameters, const float* packed, const Block& block, float* slopes,
              float* gradient) {
    for (int number = plan.last_layer - 1; number >= plan.first_layer; --number) {
        const Layer& layer = plan.layers[number];
        if (layer.cell != NO_CELL) {
            backward_cell(plan, plan.cells[layer.cell], parameters, packed, block, slopes, gradient);
        }
        if (layer.ends && (!layer.is_finished || layer.activation == Activation::GELU)) {
            close_slopes(plan, layer, block, slopes, gradient);
        }
        if (layer.table != NO_TABLE) continue;  // a minibatch's slopes of tables are found at once, by table_slopes
        if (layer.is_narrow && layer.source) {
            backward_narrow_layer(plan, layer, packed, block, slopes, gradient);
        } else {
            backward_layer(plan, layer, parameters, packed, block, slopes, gradient);
        }
    }
}

// The first block of slopes becomes the sum of all.
void add_blocks(const Plan& plan, float* gradients, int count) {
    for (int block = 1; block < count; ++block) {
        const float* further = gradients + block * plan.slopes_size;
        for (std::size_t k = plan.first_slope; k < plan.last_slope; ++k) gradients[k] += further[k];
    }
}

void spread_layer(const Plan& plan, const Layer& layer, const float* gradient, float* flat) {
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    const float* from = gradient + layer.slope;
    float* to = flat + layer.weight;
    if (layer.is_turned) {
        turn(layer.inputs, layer.outputs, from, out_stride, to, layer.weight_row);
    } else {
        copy_rows(layer.outputs, layer.inputs, from, in_stride, to, layer.weight_row);
    }
}

void spread_bias(const Layer& layer, const float* gradient, float* flat) {
    if (layer.bias == NOWHERE) return;
    std::memcpy(flat + layer.bias, gradient + layer.bias_slope, layer.outputs * sizeof(float));
}

void spread(const Plan& plan, float* gradients, int count, float* flat) {
    add_blocks(plan, gradients, count);
    for (int number = plan.first_layer; number < plan.last_layer; ++number) {
        const Layer& layer = plan.layers[number];
        spread_bias(layer, gradients, flat);
        if (layer.table == NO_TABLE) spread_layer(plan, layer, gradients, flat);
    }
    for (int number = 0; number < plan.cell_count; ++number) {
        const Cell& cell = plan.cells[number];
        if (cell.kind == CellKind::MINGRU) continue;
        spread_layer(plan, cell.across, gradients, flat);
        spread_bias(cell.across, gradients, flat);
    }
}

double squares(const float* numbers, std::size_t count) {
    Vector sums[4] = {};
    std::size_t at = 0;
    for (; at + 4 * WIDTH <= count; at += 4 * WIDTH) {
        for (int k = 0; k < 4; ++k) {
            const Vector part = load(numbers + at + k * WIDTH);
            sums[k] += part * part;
        }
    }
    const Vector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double total = 0;
    for (int k = 0; k < WIDTH; ++k) total += all[k];
    for (; at < count; ++at) total += static_cast<double>(numbers[at]) * numbers[at];
    return total;
}

void adam(const AdamStep& step, std::size_t count, float* __restrict parameters, float* __restrict gradient,
          float* __restrict mean, float* __restrict spread) {
    const float scale = step.scale, beta1 = step.beta1, beta2 = step.beta2, epsilon = step.epsilon;
    const float step_size = step.step_size, inverse_spread = step.inverse_spread, keep = step.keep;
    const float fresh1 = 1.0f - beta1, fresh2 = 1.0f - beta2;
    for (std::size_t k = 0; k < count; ++k) {
        const float slope = gradient[k] * scale;
        const float average = beta1 * mean[k] + fresh1 * slope;
        const float square = beta2 * spread[k] + fresh2 * slope * slope;
        gradient[k] = slope;
        mean[k] = average;
        spread[k] = square;
        parameters[k] = parameters[k] * keep - step_size * average / (__builtin_sqrtf(square) * inverse_spread + epsilon);
    }
}

}  // namespace

extern const Kernels PALAESTRA_VARIANT;
const Kernels PALAESTRA_VARIANT = {PALAESTRA_VARIANT_NAME, WIDTH,        &pack,        &forward,    &backward,
                                   &table_slopes,          &spread,      &chances,     &normal_log_probs,
                                   &choice_loss,           &normal_loss, &value_loss,  &squares,    &adam};

}  // namespace engine
