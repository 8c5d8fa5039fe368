// What a network's plan must hold, so that kernels can trust it.
#include <stdexcept>
#include <string>

#include "network.hpp"

namespace engine {

namespace {

using std::to_string;

bool is_inside(std::size_t offset, std::size_t count, std::size_t all) {
    return offset <= all && all - offset >= count;
}

std::string range_of(std::size_t offset, std::size_t count) {
    return "[" + to_string(offset) + ", " + to_string(offset + count) + ")";
}

}  // namespace

void require(bool holds, const std::string& message) {
    if (!holds) throw std::invalid_argument(message);
}

void Network::check() {
    require(!sizes_.empty(), "slot_sizes is empty: slot 0 must be the network's input");
    for (std::size_t slot = 0; slot < sizes_.size(); ++slot) {
        require(sizes_[slot] >= (slot ? 1 : 0), "slot " + to_string(slot) + " has size " + to_string(sizes_[slot]));
    }
    const int slots = static_cast<int>(sizes_.size());
    for (std::size_t number = 0; number < cells_.size(); ++number) {
        check_cell(cells_[number], "cell " + to_string(number));
    }
    for (std::size_t number = 0; number < norms_.size(); ++number) {
        check_norm(norms_[number], "norm " + to_string(number));
    }
    for (std::size_t number = 0; number < layers_.size(); ++number) {
        const Layer& layer = layers_[number];
        const bool is_table = layer.table != NO_TABLE;
        const std::string name =
            is_table ? "table " + to_string(layer.table) : "layer " + to_string(number - tables_.size());
        require(layer.target >= 1 && layer.target < slots, name + " has target slot " + to_string(layer.target) +
                                                               " (must be from 1 to " + to_string(slots - 1) + ")");
        is_table ? check_table(layer, name) : check_layer(layer, name);
        require(layer.bias == NO_OFFSET || is_inside(layer.bias, layer.outputs, parameter_count_),
                name + ": bias " + range_of(layer.bias, layer.outputs) + " is not within the " +
                    to_string(parameter_count_) + " parameters");
    }
    mark_ends();
    mark_norms();
    check_order();
}

void Network::check_layer(const Layer& layer, const std::string& name) const {
    const int slots = static_cast<int>(sizes_.size());
    require(layer.source >= 0 && layer.source < slots,
            name + " has source slot " + to_string(layer.source) + " (must be from 0 to " + to_string(slots - 1) + ")");
    require(layer.inputs > 0 && layer.inputs == sizes_[layer.source] && layer.outputs == sizes_[layer.target],
            name + " maps " + to_string(layer.inputs) + " inputs to " + to_string(layer.outputs) +
                " outputs, but its slots have sizes " + to_string(sizes_[layer.source]) + " and " +
                to_string(sizes_[layer.target]));
    const std::size_t inputs = layer.inputs, outputs = layer.outputs;
    if (layer.is_identity) {
        return require(inputs == outputs,
                       name + " adds a slot of size " + to_string(inputs) + " to one of size " + to_string(outputs));
    }
    require(
        layer.weight_row >= inputs && layer.weight_row <= parameter_count_,
        name + " has a weight row stride of " + to_string(layer.weight_row) + " for " + to_string(inputs) + " inputs");
    const std::size_t count = (outputs - 1) * layer.weight_row + inputs;
    require(is_inside(layer.weight, count, parameter_count_), name + ": weight " + range_of(layer.weight, count) +
                                                                  " is not within the " + to_string(parameter_count_) +
                                                                  " parameters");
}

void Network::check_table(const Layer& layer, const std::string& name) const {
    const Table& table = tables_.at(layer.table);
    require(table.cells > 0 && table.rows_per_cell > 0 && table.rows_per_cell < 256,
            name + " has " + to_string(table.cells) + " cells of " + to_string(table.rows_per_cell) +
                " rows (cells: at least 1; rows: 1 to 255)");
    require(table.size == sizes_[layer.target] && layer.outputs == table.size && table.target == layer.target,
            name + " has rows of size " + to_string(table.size) + ", but its target slot has size " +
                to_string(sizes_[layer.target]));
    const std::size_t count = static_cast<std::size_t>(table.cells) * table.rows_per_cell * table.size;
    require(is_inside(table.weight, count, parameter_count_), name + ": weight " + range_of(table.weight, count) +
                                                                  " is not within the " + to_string(parameter_count_) +
                                                                  " parameters");
}

void Network::check_cell(const Cell& cell, const std::string& name) const {
    const int slots = static_cast<int>(sizes_.size());
    require(
        cell.gates >= 1 && cell.gates < slots && cell.target >= 1 && cell.target < slots && cell.gates != cell.target,
        name + " has gates slot " + to_string(cell.gates) + " and target slot " + to_string(cell.target) +
            " (must be two different slots from 1 to " + to_string(slots - 1) + ")");
    const int gates = gates_of(cell.kind);
    require(
        cell.size == sizes_[cell.target] && sizes_[cell.gates] % gates == 0 && sizes_[cell.gates] / gates == cell.size,
        name + " has size " + to_string(cell.size) + " and " + to_string(gates) + " gates, but its slots have sizes " +
            to_string(sizes_[cell.gates]) + " (gates) and " + to_string(sizes_[cell.target]) + " (target)");
    if (cell.kind == CellKind::MINGRU) return;
    const std::size_t rows = sizes_[cell.gates], count = rows * cell.size;
    require(is_inside(cell.recurrent.weight, count, parameter_count_) &&
                is_inside(cell.recurrent.bias, rows, parameter_count_),
            name + ": recurrent weight " + range_of(cell.recurrent.weight, count) + " or bias " +
                range_of(cell.recurrent.bias, rows) + " is not within the " + to_string(parameter_count_) +
                " parameters");
}

void Network::check_norm(const Norm& norm, const std::string& name) const {
    const int slots = static_cast<int>(sizes_.size());
    require(norm.target >= 1 && norm.target < slots, name + " has target slot " + to_string(norm.target) +
                                                         " (must be from 1 to " + to_string(slots - 1) + ")");
    require(norm.size == sizes_[norm.target], name + " has size " + to_string(norm.size) +
                                                  ", but its target slot has size " + to_string(sizes_[norm.target]));
    for (const std::size_t offset : {norm.weight, norm.bias}) {
        require(is_inside(offset, norm.size, parameter_count_), name + ": weight or bias " +
                                                                    range_of(offset, norm.size) + " is not within the " +
                                                                    to_string(parameter_count_) + " parameters");
    }
    require(norm.epsilon > 0, name + " has epsilon " + to_string(norm.epsilon) + " (must be above 0)");
}

void Network::check_outputs(const std::vector<bool>& is_written, const std::vector<bool>& is_gates) const {
    const int slots = static_cast<int>(sizes_.size());
    require(has_action() || has_value(), "action_slot and value_slot are both missing: a network needs an output");
    for (const int slot : {action_slot, value_slot}) {
        const bool is_output = slot >= 1 && slot < slots && is_written[slot] && !is_gates[slot];
        require(slot == NO_SLOT || is_output, (slot == action_slot ? "action_slot " : "value_slot ") + to_string(slot) +
                                                  " must be a slot that layers write");
    }
    if (!has_action() || !has_value()) return;
    require(action_slot != value_slot && sizes_[value_slot] == 1,
            "action_slot " + to_string(action_slot) + " and value_slot " + to_string(value_slot) +
                " must be two different slots, and the value must have size 1");
}

}  // namespace engine
