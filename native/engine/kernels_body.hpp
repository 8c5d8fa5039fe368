// Included by each variant_*.cpp with PALAESTRA_WIDTH and PALAESTRA_VARIANT set. Everything has internal linkage and
// nothing comes from the standard library's templates: a function compiled for a new processor must never be the one
// that the linker keeps for an old one.

#include <cstring>

#include "kernels.hpp"
#include "tanh_fit.hpp"

namespace engine {
namespace {

#include "body_products.hpp"
#include "body_activations.hpp"
#include "body_turning.hpp"

INLINE int rows_from(int first, int rows) { return rows - first < ROWS ? rows - first : ROWS; }

void add_weight_slopes(const Plan& plan, const Layer& layer, const float* source, const float* slopes, float* gradient,
                       int rows) {
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    float* out = gradient + layer.slope;
    if (layer.is_turned) {
        product<Start::ADD>(layer.inputs, static_cast<int>(out_stride), rows,
                            {source, 1, in_stride, slopes, out_stride, out, out_stride, nullptr});
    } else {
        product<Start::ADD>(layer.outputs, static_cast<int>(in_stride), rows,
                            {slopes, 1, out_stride, source, in_stride, out, in_stride, nullptr});
    }
}

// The slopes of what a layer gave become those of what went into its activation; what they mean for its weights, and
// where it `sums_biases` for its biases, is added to the gradient.
void add_layer_slopes(const Plan& plan, const Layer& layer, const Block& block, float* slopes, float* gradient,
                      bool sums_biases) {
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    const float* source = layer.source ? block.values + plan.places[layer.source] : block.input;
    const int rows = block.steps * block.columns;
    for (int first = 0; first < rows; first += ROWS) {
        const int some = rows_from(first, rows);
        const std::size_t at = plan.places[layer.target] + first * out_stride;
        if (sums_biases) {
            deactivate(layer.activation, block.values + at, block.before ? block.before + at : nullptr, slopes + at,
                       some, static_cast<int>(out_stride), gradient + layer.bias_slope);
        }
        add_weight_slopes(plan, layer, source + first * in_stride, slopes + at, gradient, some);
    }
}

#include "body_cells.hpp"

void pack_layer(const Plan& plan, const Layer& layer, const float* parameters, float* packed) {
    const std::size_t out_stride = plan.strides[layer.target], in_stride = plan.strides[layer.source];
    const float* weight = parameters + layer.weight;
    float* turned = packed + layer.packed;
    turn(layer.outputs, layer.inputs, weight, layer.inputs, turned, out_stride);
    std::memcpy(turned + layer.inputs * out_stride, parameters + layer.bias, layer.outputs * sizeof(float));
    if (layer.widened == NOWHERE) return;
    for (int out = 0; out < layer.outputs; ++out) {
        std::memcpy(packed + layer.widened + out * in_stride, weight + out * layer.inputs,
                    layer.inputs * sizeof(float));
    }
}

void pack(const Plan& plan, const float* parameters, float* packed) {
    for (int number = 0; number < plan.layer_count; ++number) {
        const Layer& layer = plan.layers[number];
        pack_layer(plan, layer, parameters, packed);
        if (layer.cell == NO_CELL) continue;
        const Cell& cell = plan.cells[layer.cell];
        if (cell.kind == CellKind::MINGRU) continue;
        pack_layer(plan, cell.across, parameters, packed);
        if (cell.kind == CellKind::GRU) continue;
        // Both biases of an LSTM are added to the same gates: here once, instead of at every step.
        float* bias = packed + layer.packed + layer.inputs * static_cast<std::size_t>(plan.strides[layer.target]);
        for (int out = 0; out < layer.outputs; ++out) bias[out] += parameters[cell.across.bias + out];
    }
}

void forward_layer(const Plan& plan, const Layer& layer, const float* packed, const Block& block) {
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    const float* turned = packed + layer.packed;
    const float* source = layer.source ? block.values + plan.places[layer.source] : block.input;
    const int rows = block.steps * block.columns;
    for (int first = 0; first < rows; first += ROWS) {
        const int some = rows_from(first, rows);
        const std::size_t at = plan.places[layer.target] + first * out_stride;
        float* out = block.values + at;
        product<Start::BIAS>(some, static_cast<int>(out_stride), layer.inputs,
                             {source + first * in_stride, in_stride, 1, turned, out_stride, out, out_stride,
                              turned + layer.inputs * out_stride});
        activate(layer.activation, out, block.before ? block.before + at : nullptr, some * out_stride);
    }
}

void forward(const Plan& plan, const float* packed, const Block& block, int wanted) {
    for (int number = 0; number < plan.layer_count; ++number) {
        const Layer& layer = plan.layers[number];
        const int needed = (layer.is_for_action ? FOR_ACTION : 0) | (layer.is_for_value ? FOR_VALUE : 0);
        if (!(needed & wanted)) continue;
        forward_layer(plan, layer, packed, block);
        if (layer.cell != NO_CELL) forward_cell(plan, plan.cells[layer.cell], packed, block);
    }
}

void backward(const Plan& plan, const float* parameters, const float* packed, const Block& block, float* slopes,
              float* gradient) {
    const int rows = block.steps * block.columns;
    for (int number = plan.layer_count - 1; number >= 0; --number) {
        const Layer& layer = plan.layers[number];
        if (layer.cell != NO_CELL) {
            backward_cell(plan, plan.cells[layer.cell], parameters, packed, block, slopes, gradient);
        }
        add_layer_slopes(plan, layer, block, slopes, gradient, true);
        if (layer.source == 0) continue;
        const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
        const float* weight = layer.widened == NOWHERE ? parameters + layer.weight : packed + layer.widened;
        for (int first = 0; first < rows; first += ROWS) {
            const Operands at_source = {slopes + plan.places[layer.target] + first * out_stride,
                                        out_stride,
                                        1,
                                        weight,
                                        in_stride,
                                        slopes + plan.places[layer.source] + first * in_stride,
                                        in_stride,
                                        nullptr};
            if (layer.adds_to_source) {
                product<Start::ADD>(rows_from(first, rows), static_cast<int>(in_stride), layer.outputs, at_source);
            } else {
                product<Start::ZERO>(rows_from(first, rows), static_cast<int>(in_stride), layer.outputs, at_source);
            }
        }
    }
}

// The first block of slopes becomes the sum of all.
void add_up(float* gradients, std::size_t size, int count) {
    for (int block = 1; block < count; ++block) {
        const float* further = gradients + block * size;
        for (std::size_t k = 0; k < size; ++k) gradients[k] += further[k];
    }
}

void spread_layer(const Plan& plan, const Layer& layer, const float* gradient, float* flat) {
    const std::size_t in_stride = plan.strides[layer.source], out_stride = plan.strides[layer.target];
    const std::size_t inputs = layer.inputs, outputs = layer.outputs;
    const float* from = gradient + layer.slope;
    float* to = flat + layer.weight;
    if (layer.is_turned) {
        turn(layer.inputs, layer.outputs, from, out_stride, to, inputs);
    } else if (in_stride == inputs) {
        std::memcpy(to, from, inputs * outputs * sizeof(float));
    } else {
        for (std::size_t out = 0; out < outputs; ++out) {
            std::memcpy(to + out * inputs, from + out * in_stride, inputs * sizeof(float));
        }
    }
    std::memcpy(flat + layer.bias, gradient + layer.bias_slope, outputs * sizeof(float));
}

void spread(const Plan& plan, float* gradients, int count, float* flat) {
    add_up(gradients, plan.slopes_size, count);
    for (int number = 0; number < plan.layer_count; ++number) {
        spread_layer(plan, plan.layers[number], gradients, flat);
    }
    for (int number = 0; number < plan.cell_count; ++number) {
        const Cell& cell = plan.cells[number];
        if (cell.kind != CellKind::MINGRU) spread_layer(plan, cell.across, gradients, flat);
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
const Kernels PALAESTRA_VARIANT = {PALAESTRA_VARIANT_NAME, WIDTH, &pack,    &forward, &backward,
                                   &spread,                &squares, &adam};

}  // namespace engine
