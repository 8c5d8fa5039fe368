#include "network.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "float_array.hpp"

namespace engine {

namespace {

// Inputs below which weight gradients are accumulated transposed: the long side must fill SIMD vectors.
constexpr int MIN_INPUTS_UNTRANSPOSED = 16;

using std::to_string;

int round_up(int size, int width) { return (size + width - 1) / width * width; }

}  // namespace

int gates_of(CellKind kind) { return kind == CellKind::MINGRU ? 2 : kind == CellKind::LSTM ? 4 : 3; }

int state_parts_of(CellKind kind) { return kind == CellKind::LSTM ? 2 : 1; }

Network::Network(NetworkPlan plan, std::size_t parameter_count, int rows, const Kernels& kernels,
                 InputGradients input_gradients)
    : action_slot(plan.action_slot),
      value_slot(plan.value_slot),
      sizes_(std::move(plan.slot_sizes)),
      layers_(std::move(plan.layers)),
      tables_(std::move(plan.tables)),
      cells_(std::move(plan.cells)),
      norms_(std::move(plan.norms)),
      kernels_(kernels),
      parameter_count_(parameter_count),
      has_input_gradients_(input_gradients == InputGradients::YES) {
    check();
    mark_uses();
    add_cell_slots();
    add_norm_slots();
    lay_out(rows);
}

// Several layers may add to one target.
void Network::mark_ends() {
    std::vector<int> last(sizes_.size(), NO_LAYER);
    for (std::size_t number = 0; number < layers_.size(); ++number) {
        Layer& layer = layers_[number];
        int& before = last[layer.target];
        layer.begins = before == NO_LAYER;
        layer.ends = true;
        if (!layer.begins) {
            require(layers_[before].activation == layer.activation,
                    "layers that add to slot " + to_string(layer.target) + " have different activations");
            layers_[before].ends = false;
        }
        before = static_cast<int>(number);
    }
}

void Network::mark_norms() {
    for (Layer& layer : layers_) layer.norm = NO_NORM;
    for (std::size_t number = 0; number < norms_.size(); ++number) {
        const int target = norms_[number].target;
        const auto last = std::find_if(layers_.begin(), layers_.end(), [&](const Layer& layer) {
            return layer.ends && layer.target == target && layer.norm == NO_NORM;
        });
        require(last != layers_.end(), "norm " + to_string(number) + " is the second of slot " + to_string(target) +
                                           ", or no layer writes that slot");
        last->norm = static_cast<int>(number);
    }
}

void Network::check_order() {
    std::vector<bool> is_written(sizes_.size()), is_gates(sizes_.size());
    is_written[0] = true;
    for (const Cell& cell : cells_) {
        require(!is_gates[cell.gates], "two cells read the gates in slot " + to_string(cell.gates));
        is_gates[cell.gates] = true;
    }
    std::size_t cells_found = 0;
    for (Layer& layer : layers_) {
        const bool can_read = layer.table != NO_TABLE || (is_written[layer.source] && !is_gates[layer.source]);
        require(can_read, "slot " + to_string(layer.source) + " is read before it is written, or holds gates");
        require(!is_written[layer.target], "slot " + to_string(layer.target) + " is written after it is complete");
        layer.cell = NO_CELL;
        if (!layer.ends) continue;
        is_written[layer.target] = true;
        for (std::size_t number = 0; number < cells_.size(); ++number) {
            const Cell& cell = cells_[number];
            if (cell.gates != layer.target) continue;
            require(layer.activation == Activation::NONE && layer.norm == NO_NORM && !is_written[cell.target],
                    "cell " + to_string(number) +
                        " needs gates without an activation or a norm, and a target that no layer writes");
            layer.cell = static_cast<int>(number);
            is_written[cell.target] = true;
            ++cells_found;
        }
    }
    require(cells_found == cells_.size(), "no layer writes the gates of a cell");
    check_outputs(is_written, is_gates);
}

void Network::mark_uses() {
    std::vector<bool> feeds_action(sizes_.size()), feeds_value(sizes_.size()), has_reader(sizes_.size());
    if (has_action()) feeds_action[action_slot] = true;
    if (has_value()) feeds_value[value_slot] = true;
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
        const int read = layer->cell == NO_CELL ? layer->target : cells_[layer->cell].target;
        layer->is_for_action = feeds_action[layer->target] = feeds_action[read];
        layer->is_for_value = feeds_value[layer->target] = feeds_value[read];
        if (!layer->is_for_action && !layer->is_for_value) {
            throw std::invalid_argument("no output depends on slot " + to_string(layer->target));
        }
        if (layer->table != NO_TABLE) continue;
        if (layer->is_for_action) feeds_action[layer->source] = true;
        if (layer->is_for_value) feeds_value[layer->source] = true;
        has_reader[layer->source] = true;
    }
    split_value_network();
    mark_additions();
    mark_completions();
    for (const int end : {action_slot, value_slot}) {
        require(end == NO_SLOT || !has_reader[end], "a layer reads the output slot " + to_string(end));
    }
}

void Network::split_value_network() {
    if (!cells_.empty() || !tables_.empty() || !has_action() || !has_value()) return;
    for (const Layer& layer : layers_) {
        if (layer.is_for_action && layer.is_for_value) return;
    }
    const auto others =
        std::stable_partition(layers_.begin(), layers_.end(), [](const Layer& layer) { return layer.is_for_value; });
    const int value_layer_count = static_cast<int>(others - layers_.begin());
    const std::vector<bool> value_parameters = parameters_of(0, value_layer_count);
    const std::vector<bool> action_parameters = parameters_of(value_layer_count, static_cast<int>(layers_.size()));
    for (std::size_t k = 0; k < parameter_count_; ++k) {
        if (value_parameters[k] && action_parameters[k]) return;
    }
    value_layers_ = value_layer_count;
}

std::vector<bool> Network::parameters_of(int first_layer, int last_layer) const {
    std::vector<bool> used(parameter_count_);
    for (int number = first_layer; number < last_layer; ++number) {
        const Layer& layer = layers_[number];
        for (int output = 0; output < layer.outputs && !layer.is_identity; ++output) {
            const auto row = used.begin() + layer.weight + output * layer.weight_row;
            std::fill(row, row + layer.inputs, true);
        }
        if (layer.bias != NO_OFFSET) std::fill_n(used.begin() + layer.bias, layer.outputs, true);
        if (layer.norm == NO_NORM) continue;
        const Norm& norm = norms_[layer.norm];
        std::fill_n(used.begin() + norm.weight, norm.size, true);
        std::fill_n(used.begin() + norm.bias, norm.size, true);
    }
    return used;
}

// Parameters of no layer belong to the action part: log_std, and those that are not trained.
Part Network::part(int first_layer, int last_layer, std::size_t first_gradient, std::size_t last_gradient) const {
    const std::vector<bool> value_parameters = parameters_of(0, value_layers_);
    const bool is_value = first_layer == 0;
    Part part = {layout_, is_value ? FOR_VALUE : FOR_ACTION, {}};
    part.layout.first_layer = first_layer;
    part.layout.last_layer = last_layer;
    part.layout.first_gradient = first_gradient;
    part.layout.last_gradient = last_gradient;
    for (std::size_t k = 0; k < parameter_count_; ++k) {
        if (value_parameters[k] != is_value) continue;
        if (part.parameters.empty() || part.parameters.back().end != k) part.parameters.push_back({k, k});
        part.parameters.back().end = k + 1;
    }
    return part;
}

std::vector<Part> Network::parts() const {
    if (!value_layers_) return {whole()};
    return {part(0, value_layers_, 0, value_gradient_end_),
            part(value_layers_, layout_.last_layer, action_gradient_begin_, layout_.gradient_size)};
}

// In the backward pass, the last reader of a slot is the first to write its grads.
void Network::mark_additions() {
    std::vector<bool> has_reader(sizes_.size());
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
        if (layer->table != NO_TABLE) continue;
        layer->adds_to_source = has_reader[layer->source];
        has_reader[layer->source] = true;
    }
}

// In the backward pass, the first reader of a slot is the last to add to its grads. A product then applies the
// derivative of the slot's activation; what follows a norm or precedes an identity is a pass of its own.
void Network::mark_completions() {
    std::vector<int> writers(sizes_.size(), NO_LAYER);
    for (std::size_t number = 0; number < layers_.size(); ++number) {
        Layer& layer = layers_[number];
        layer.is_completed_by_reader = false;
        layer.completes_layer = NO_LAYER;
        if (layer.table == NO_TABLE) {
            if (!layer.is_identity) layer.completes_layer = writers[layer.source];
            writers[layer.source] = NO_LAYER;
        }
        if (layer.completes_layer != NO_LAYER) layers_[layer.completes_layer].is_completed_by_reader = true;
        if (layer.ends && layer.cell == NO_CELL && layer.norm == NO_NORM) writers[layer.target] = static_cast<int>(number);
    }
}

int Network::add_slot(int size) {
    sizes_.push_back(size);
    return static_cast<int>(sizes_.size()) - 1;
}

void Network::add_cell_slots() {
    for (Cell& cell : cells_) {
        const bool is_lstm = cell.kind == CellKind::LSTM;
        cell.hidden = add_slot(cell.size);
        cell.cell_state = is_lstm ? add_slot(cell.size) : 0;
        cell.tanh_cell = is_lstm ? add_slot(cell.size) : 0;
        cell.recurrent.source = cell.hidden;
        cell.recurrent.target = cell.kind == CellKind::GRU ? add_slot(sizes_[cell.gates]) : cell.gates;
        cell.recurrent.inputs = cell.size;
        cell.recurrent.outputs = sizes_[cell.gates];
        cell.recurrent.weight_row = cell.size;
        cell.recurrent.activation = Activation::NONE;
        cell.recurrent.table = NO_TABLE;
        cell.recurrent.cell = NO_CELL;
        cell.recurrent.norm = NO_NORM;
        cell.recurrent.begins = cell.kind == CellKind::GRU;  // an LSTM's product is added to what the input layer wrote
        cell.recurrent.ends = true;
    }
}

void Network::add_norm_slots() {
    for (Norm& norm : norms_) {
        norm.normalized = add_slot(norm.size);
        norm.inverse_std = add_slot(1);
    }
}

// The offset of a new vector of the slot's stride.
std::size_t Network::add_vector(std::size_t& size, int slot) const {
    size += strides_[slot];
    return size - strides_[slot];
}

void Network::lay_out_norm(Norm& norm) {
    norm.packed_weight = add_vector(layout_.packed_size, norm.target);
    norm.packed_bias = add_vector(layout_.packed_size, norm.target);
    norm.weight_gradient = add_vector(layout_.gradient_size, norm.target);
    norm.bias_gradient = add_vector(layout_.gradient_size, norm.target);
}

// All layers that add to a target share the sum of its biases and their gradient.
void Network::lay_out_bias(Layer& layer) {
    layer.has_bias = std::any_of(layers_.begin(), layers_.end(), [&](const Layer& other) {
        return other.target == layer.target && other.bias != NO_OFFSET;
    });
    if (layer.begins) {
        layer.packed_bias = add_vector(layout_.packed_size, layer.target);
        layer.bias_gradient = add_vector(layout_.gradient_size, layer.target);
        return;
    }
    for (const Layer& first : layers_) {
        if (first.target != layer.target) continue;
        layer.packed_bias = first.packed_bias;
        layer.bias_gradient = first.bias_gradient;
        return;
    }
}

void Network::lay_out_layer(Layer& layer) {
    const std::size_t in_stride = strides_[layer.source], out_stride = strides_[layer.target];
    const bool is_end = layer.target == action_slot || layer.target == value_slot;
    layer.is_narrow = is_end && layer.outputs <= NARROW_OUTPUTS && layer.activation == Activation::NONE;
    layer.packed = layout_.packed_size;
    layout_.packed_size += layer.is_narrow ? layer.outputs * in_stride : layer.inputs * out_stride;
    layer.padded_weight = layer.is_narrow ? layer.packed : NO_OFFSET;
    const bool has_backward = layer.source || has_input_gradients_;
    if (!layer.is_narrow && has_backward && layer.inputs % kernels_.width) {
        layer.padded_weight = layout_.packed_size;
        layout_.packed_size += layer.outputs * in_stride;
    }
    layer.is_transposed = !layer.is_narrow && layer.inputs < MIN_INPUTS_UNTRANSPOSED && layer.outputs > layer.inputs;
    layer.gradient = layout_.gradient_size;
    layout_.gradient_size += layer.is_transposed ? layer.inputs * out_stride : layer.outputs * in_stride;
}

// The action part begins on a page of its own.
void Network::end_value_part() {
    constexpr std::size_t FLOATS = PAGE / sizeof(float);
    value_gradient_end_ = layout_.gradient_size;
    layout_.gradient_size = (layout_.gradient_size + FLOATS - 1) / FLOATS * FLOATS;
    layout_.packed_size = (layout_.packed_size + FLOATS - 1) / FLOATS * FLOATS;
    action_gradient_begin_ = layout_.gradient_size;
}

void Network::lay_out(int rows) {
    for (const int size : sizes_) {
        strides_.push_back(round_up(size, kernels_.width));
        offsets_.push_back(layout_.block_size);
        layout_.block_size += static_cast<std::size_t>(rows) * strides_.back();
    }
    for (Layer& layer : layers_) {
        if (value_layers_ && &layer == layers_.data() + value_layers_) end_value_part();
        if (layer.table == NO_TABLE && !layer.is_identity) lay_out_layer(layer);
        lay_out_bias(layer);
        if (layer.norm != NO_NORM) lay_out_norm(norms_[layer.norm]);
        layout_.needs_pre_activations |= layer.activation == Activation::GELU;
        if (layer.cell == NO_CELL) continue;
        Cell& cell = cells_[layer.cell];
        cell.state = layout_.state_size;
        layout_.state_size += static_cast<std::size_t>(state_parts_of(cell.kind)) * strides_[cell.hidden];
        if (cell.kind == CellKind::MINGRU) continue;
        lay_out_layer(cell.recurrent);
        lay_out_bias(cell.recurrent);
    }
    for (Table& table : tables_) {
        table.first_cell = layout_.code_count;
        layout_.code_count += table.cells;
    }
    log_std_gradient_ = layout_.gradient_size;
    if (has_action()) layout_.gradient_size += strides_[action_slot];
    layout_.layers = layers_.data();
    layout_.last_layer = static_cast<int>(layers_.size());
    layout_.last_gradient = layout_.gradient_size;
    layout_.tables = tables_.data();
    layout_.table_count = static_cast<int>(tables_.size());
    layout_.cells = cells_.data();
    layout_.cell_count = static_cast<int>(cells_.size());
    layout_.norms = norms_.data();
    layout_.strides = strides_.data();
    layout_.offsets = offsets_.data();
}

}  // namespace engine
