#include "network.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "floats.hpp"

namespace engine {

namespace {

constexpr int NARROW = 16;  // inputs below which slopes of weights are summed turned: the long side must fill registers

int rounded(int size, int width) { return (size + width - 1) / width * width; }

bool is_inside(std::size_t place, std::size_t count, std::size_t all) { return place <= all && all - place >= count; }

}  // namespace

int gates_of(CellKind kind) { return kind == CellKind::MINGRU ? 2 : kind == CellKind::LSTM ? 4 : 3; }

int state_parts_of(CellKind kind) { return kind == CellKind::LSTM ? 2 : 1; }

Network::Network(const std::vector<int>& sizes, std::vector<Layer> layers, std::vector<Table> tables,
                 std::vector<Cell> cells, std::size_t parameter_count, int action, int value, int rows,
                 const Kernels& kernels)
    : action_slot(action),
      value_slot(value),
      sizes_(sizes),
      layers_(std::move(layers)),
      tables_(std::move(tables)),
      cells_(std::move(cells)),
      kernels_(kernels),
      parameter_count_(parameter_count) {
    check(parameter_count);
    mark_uses();
    add_cell_slots();
    lay_out(rows);
}

void Network::check(std::size_t parameter_count) {
    if (sizes_.empty()) throw std::invalid_argument("a network needs an input");
    for (std::size_t slot = 0; slot < sizes_.size(); ++slot) {
        if (sizes_[slot] < (slot ? 1 : 0)) throw std::invalid_argument("a slot of size " + std::to_string(sizes_[slot]));
    }
    for (const Cell& cell : cells_) check_cell(cell, parameter_count);
    for (const Layer& layer : layers_) {
        if (layer.target < 1 || layer.target >= static_cast<int>(sizes_.size())) {
            throw std::invalid_argument("a layer that writes nowhere");
        }
        layer.table == NO_TABLE ? check_layer(layer, parameter_count) : check_table(layer, parameter_count);
    }
    mark_ends();
    check_order();
}

void Network::check_layer(const Layer& layer, std::size_t parameter_count) const {
    if (layer.source < 0 || layer.source >= static_cast<int>(sizes_.size())) {
        throw std::invalid_argument("a layer that reads nothing");
    }
    const std::size_t inputs = layer.inputs, outputs = layer.outputs;
    const bool fits = layer.inputs > 0 && layer.inputs == sizes_[layer.source] && layer.outputs == sizes_[layer.target] &&
                      layer.weight_row >= inputs && layer.weight_row <= parameter_count;
    if (!fits || !is_inside(layer.weight, (outputs - 1) * layer.weight_row + inputs, parameter_count) ||
        (layer.bias != NOWHERE && !is_inside(layer.bias, outputs, parameter_count))) {
        throw std::invalid_argument("a layer does not fit its slots or its parameters");
    }
}

void Network::check_table(const Layer& layer, std::size_t parameter_count) const {
    const Table& table = tables_.at(layer.table);
    const bool fits = table.cells > 0 && table.most > 0 && table.most < 256 && table.size == sizes_[layer.target] &&
                      layer.outputs == table.size && table.target == layer.target;
    if (!fits || !is_inside(table.place, static_cast<std::size_t>(table.cells) * table.most * table.size, parameter_count) ||
        (layer.bias != NOWHERE && !is_inside(layer.bias, table.size, parameter_count))) {
        throw std::invalid_argument("a table does not fit its slot or its parameters");
    }
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
            if (layers_[before].activation != layer.activation) throw std::invalid_argument("one target, two activations");
            layers_[before].ends = false;
        }
        before = static_cast<int>(number);
    }
}

void Network::check_order() {
    const int slots = static_cast<int>(sizes_.size());
    std::vector<bool> is_written(sizes_.size()), is_gates(sizes_.size());
    is_written[0] = true;
    for (const Cell& cell : cells_) {
        if (is_gates[cell.gates]) throw std::invalid_argument("two cells read the same gates");
        is_gates[cell.gates] = true;
    }
    std::size_t cells_met = 0;
    for (Layer& layer : layers_) {
        const bool can_read = layer.table != NO_TABLE || (is_written[layer.source] && !is_gates[layer.source]);
        if (!can_read || is_written[layer.target]) {
            throw std::invalid_argument("layers are not in an order in which they can be computed");
        }
        layer.cell = NO_CELL;
        if (!layer.ends) continue;
        is_written[layer.target] = true;
        for (std::size_t number = 0; number < cells_.size(); ++number) {
            const Cell& cell = cells_[number];
            if (cell.gates != layer.target) continue;
            if (layer.activation != Activation::NONE || is_written[cell.target]) {
                throw std::invalid_argument("a cell cannot follow this layer");
            }
            layer.cell = static_cast<int>(number);
            is_written[cell.target] = true;
            ++cells_met;
        }
    }
    if (cells_met != cells_.size()) throw std::invalid_argument("a cell whose gates nobody writes");
    const auto is_end = [&](int slot) { return slot >= 1 && slot < slots && is_written[slot] && !is_gates[slot]; };
    if (!is_end(action_slot) || !is_end(value_slot) || action_slot == value_slot || sizes_[value_slot] != 1) {
        throw std::invalid_argument("the network must end in an action and in one value");
    }
}

void Network::check_cell(const Cell& cell, std::size_t parameter_count) const {
    const int slots = static_cast<int>(sizes_.size());
    const bool has_slots = cell.gates >= 1 && cell.gates < slots && cell.target >= 1 && cell.target < slots;
    if (!has_slots || cell.gates == cell.target || cell.size != sizes_[cell.target] ||
        sizes_[cell.gates] % gates_of(cell.kind) || sizes_[cell.gates] / gates_of(cell.kind) != cell.size) {
        throw std::invalid_argument("a cell does not fit its slots");
    }
    if (cell.kind == CellKind::MINGRU) return;
    const std::size_t rows = sizes_[cell.gates];
    if (!is_inside(cell.across.weight, rows * cell.size, parameter_count) ||
        !is_inside(cell.across.bias, rows, parameter_count)) {
        throw std::invalid_argument("a cell does not fit its parameters");
    }
}

void Network::mark_uses() {
    std::vector<bool> acts(sizes_.size()), judges(sizes_.size()), has_slopes(sizes_.size());
    acts[action_slot] = judges[value_slot] = true;
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
        const int read = layer->cell == NO_CELL ? layer->target : cells_[layer->cell].target;
        layer->is_for_action = acts[layer->target] = acts[read];
        layer->is_for_value = judges[layer->target] = judges[read];
        if (!layer->is_for_action && !layer->is_for_value) throw std::invalid_argument("a layer that nobody reads");
        if (layer->table != NO_TABLE) continue;
        if (layer->is_for_action) acts[layer->source] = true;
        if (layer->is_for_value) judges[layer->source] = true;
        layer->adds_to_source = has_slopes[layer->source];
        has_slopes[layer->source] = true;
    }
    set_value_apart();
    mark_finishers();
    for (const int end : {action_slot, value_slot}) {
        if (has_slopes[end]) throw std::invalid_argument("an end of the network is read by a layer");
    }
}

void Network::set_value_apart() {
    if (!cells_.empty() || !tables_.empty()) return;
    for (const Layer& layer : layers_) {
        if (layer.is_for_action && layer.is_for_value) return;
    }
    const auto others = std::stable_partition(layers_.begin(), layers_.end(),
                                              [](const Layer& layer) { return layer.is_for_value; });
    const int border = static_cast<int>(others - layers_.begin());
    const std::vector<bool> judging = parameters_of(0, border);
    const std::vector<bool> acting = parameters_of(border, static_cast<int>(layers_.size()));
    for (std::size_t k = 0; k < parameter_count_; ++k) {
        if (judging[k] && acting[k]) return;
    }
    value_layers_ = border;
}

std::vector<bool> Network::parameters_of(int first_layer, int last_layer) const {
    std::vector<bool> own(parameter_count_);
    for (int number = first_layer; number < last_layer; ++number) {
        const Layer& layer = layers_[number];
        for (int output = 0; output < layer.outputs; ++output) {
            const auto row = own.begin() + layer.weight + output * layer.weight_row;
            std::fill(row, row + layer.inputs, true);
        }
        if (layer.bias != NOWHERE) std::fill_n(own.begin() + layer.bias, layer.outputs, true);
    }
    return own;
}

// What belongs to no layer is the action's: the spread of normals, and what nobody learns.
Part Network::part(int first_layer, int last_layer, std::size_t first_slope, std::size_t last_slope) const {
    const std::vector<bool> judging = parameters_of(0, value_layers_);
    const bool is_value = first_layer == 0;
    Part part = {plan_, is_value ? FOR_VALUE : FOR_ACTION, {}};
    part.plan.first_layer = first_layer;
    part.plan.last_layer = last_layer;
    part.plan.first_slope = first_slope;
    part.plan.last_slope = last_slope;
    for (std::size_t k = 0; k < parameter_count_; ++k) {
        if (judging[k] != is_value) continue;
        if (part.parameters.empty() || part.parameters.back().end != k) part.parameters.push_back({k, k});
        part.parameters.back().end = k + 1;
    }
    return part;
}

std::vector<Part> Network::parts() const {
    if (!value_layers_) return {whole()};
    return {part(0, value_layers_, 0, value_slopes_),
            part(value_layers_, plan_.last_layer, action_slopes_, plan_.slopes_size)};
}

// Backwards, the first reader of a slot is the last to add to its slopes.
void Network::mark_finishers() {
    std::vector<int> writers(sizes_.size(), NO_LAYER);
    for (std::size_t number = 0; number < layers_.size(); ++number) {
        Layer& layer = layers_[number];
        layer.is_finished = false;
        layer.finishes = NO_LAYER;
        if (layer.table == NO_TABLE) {
            layer.finishes = writers[layer.source];
            writers[layer.source] = NO_LAYER;
        }
        if (layer.finishes != NO_LAYER) layers_[layer.finishes].is_finished = true;
        if (layer.ends && layer.cell == NO_CELL) writers[layer.target] = static_cast<int>(number);
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
        cell.inner = is_lstm ? add_slot(cell.size) : 0;
        cell.bent = is_lstm ? add_slot(cell.size) : 0;
        cell.across.source = cell.hidden;
        cell.across.target = cell.kind == CellKind::GRU ? add_slot(sizes_[cell.gates]) : cell.gates;
        cell.across.inputs = cell.size;
        cell.across.outputs = sizes_[cell.gates];
        cell.across.weight_row = cell.size;
        cell.across.activation = Activation::NONE;
        cell.across.table = NO_TABLE;
        cell.across.cell = NO_CELL;
        cell.across.begins = cell.kind == CellKind::GRU;  // an LSTM's is added to what the input wrote
        cell.across.ends = true;
    }
}

// All that add to a target share its biases' sum and its slopes.
void Network::lay_out_bias(Layer& layer) {
    if (layer.begins) {
        layer.packed_bias = plan_.packed_size;
        layer.bias_slope = plan_.slopes_size;
        plan_.packed_size += strides_[layer.target];
        plan_.slopes_size += strides_[layer.target];
        return;
    }
    for (const Layer& first : layers_) {
        if (first.target != layer.target) continue;
        layer.packed_bias = first.packed_bias;
        layer.bias_slope = first.bias_slope;
        return;
    }
}

void Network::lay_out_layer(Layer& layer) {
    const std::size_t in_stride = strides_[layer.source], out_stride = strides_[layer.target];
    const bool is_end = layer.target == action_slot || layer.target == value_slot;
    layer.is_narrow = is_end && layer.outputs <= NARROW_OUTPUTS && layer.activation == Activation::NONE;
    layer.packed = plan_.packed_size;
    plan_.packed_size += layer.is_narrow ? layer.outputs * in_stride : layer.inputs * out_stride;
    layer.widened = layer.is_narrow ? layer.packed : NOWHERE;
    if (!layer.is_narrow && layer.source && layer.inputs % kernels_.width) {
        layer.widened = plan_.packed_size;
        plan_.packed_size += layer.outputs * in_stride;
    }
    layer.is_turned = !layer.is_narrow && layer.inputs < NARROW && layer.outputs > layer.inputs;
    layer.slope = plan_.slopes_size;
    plan_.slopes_size += layer.is_turned ? layer.inputs * out_stride : layer.outputs * in_stride;
}

// The other part begins on a page of its own.
void Network::end_value_part() {
    constexpr std::size_t FLOATS = PAGE / sizeof(float);
    value_slopes_ = plan_.slopes_size;
    plan_.slopes_size = (plan_.slopes_size + FLOATS - 1) / FLOATS * FLOATS;
    plan_.packed_size = (plan_.packed_size + FLOATS - 1) / FLOATS * FLOATS;
    action_slopes_ = plan_.slopes_size;
}

void Network::lay_out(int rows) {
    for (const int size : sizes_) {
        strides_.push_back(rounded(size, kernels_.width));
        places_.push_back(plan_.block_size);
        plan_.block_size += static_cast<std::size_t>(rows) * strides_.back();
    }
    for (Layer& layer : layers_) {
        if (value_layers_ && &layer == layers_.data() + value_layers_) end_value_part();
        if (layer.table == NO_TABLE) lay_out_layer(layer);
        lay_out_bias(layer);
        plan_.keeps_inputs_of_activations |= layer.activation == Activation::GELU;
        if (layer.cell == NO_CELL) continue;
        Cell& cell = cells_[layer.cell];
        cell.state = plan_.state_size;
        plan_.state_size += static_cast<std::size_t>(state_parts_of(cell.kind)) * strides_[cell.hidden];
        if (cell.kind == CellKind::MINGRU) continue;
        lay_out_layer(cell.across);
        lay_out_bias(cell.across);
    }
    for (Table& table : tables_) {
        table.first = plan_.code_count;
        plan_.code_count += table.cells;
    }
    log_std_slope_ = plan_.slopes_size;
    plan_.slopes_size += strides_[action_slot];
    plan_.layers = layers_.data();
    plan_.last_layer = static_cast<int>(layers_.size());
    plan_.last_slope = plan_.slopes_size;
    plan_.tables = tables_.data();
    plan_.table_count = static_cast<int>(tables_.size());
    plan_.cells = cells_.data();
    plan_.cell_count = static_cast<int>(cells_.size());
    plan_.strides = strides_.data();
    plan_.places = places_.data();
}

}  // namespace engine
