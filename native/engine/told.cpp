#include "told.hpp"

#include <stdexcept>

namespace engine {

namespace {

Activation activation_of(int number) {
    if (number < 0 || number > 3) throw std::invalid_argument("there is no such activation");
    return static_cast<Activation>(number);
}

std::size_t bias_of(std::int64_t place) { return place < 0 ? NOWHERE : static_cast<std::size_t>(place); }

}  // namespace

std::vector<Table> tables_of(const std::vector<TableTuple>& tuples) {
    std::vector<Table> tables;
    for (const auto& [target, cells, most, clips, size, place, bias, activation] : tuples) {
        tables.push_back({cells, most, size, place, clips, target, 0});
    }
    return tables;
}

std::vector<Layer> layers_of(const std::vector<TableTuple>& tables, const std::vector<LayerTuple>& tuples) {
    std::vector<Layer> layers;
    for (const auto& [target, cells, most, clips, size, place, bias, activation] : tables) {
        Layer layer{};
        layer.target = target;
        layer.outputs = size;
        layer.bias = bias_of(bias);
        layer.activation = activation_of(activation);
        layer.table = static_cast<int>(layers.size());
        layers.push_back(layer);
    }
    for (const auto& [source, target, inputs, outputs, weight, weight_row, bias, activation] : tuples) {
        Layer layer{};
        layer.source = source;
        layer.target = target;
        layer.inputs = inputs;
        layer.outputs = outputs;
        layer.weight = weight;
        layer.weight_row = weight_row;
        layer.bias = bias_of(bias);
        layer.activation = activation_of(activation);
        layer.table = NO_TABLE;
        layers.push_back(layer);
    }
    return layers;
}

std::vector<Cell> cells_of(const std::vector<CellTuple>& tuples) {
    std::vector<Cell> cells;
    for (const auto& [kind, gates, target, size, weight, bias] : tuples) {
        if (kind < 0 || kind > 2) throw std::invalid_argument("there is no such cell");
        Cell cell{};
        cell.kind = static_cast<CellKind>(kind);
        cell.size = size;
        cell.gates = gates;
        cell.target = target;
        cell.across.weight = weight;
        cell.across.bias = bias;
        cells.push_back(cell);
    }
    return cells;
}

HeadPlan head_of(int kind, const std::vector<int>& counts, std::size_t log_std, std::size_t parameter_count) {
    if (kind < 0 || kind > 1 || counts.empty()) throw std::invalid_argument("there is no such head");
    HeadPlan head{static_cast<Head>(kind), counts, 0, log_std};
    for (const int count : counts) {
        if (count < 1) throw std::invalid_argument("a choice among none");
        head.size += head.kind == Head::NORMAL ? 1 : count;
    }
    if (head.kind == Head::CHOICES && head.parts() > MAX_PARTS) throw std::invalid_argument("too many choices at once");
    if (head.kind == Head::NORMAL && (log_std > parameter_count || parameter_count - log_std < counts.size())) {
        throw std::invalid_argument("log_std is not among the parameters");
    }
    return head;
}

Reader reader_of(int kind, const std::vector<int>& counts, const std::vector<int>& firsts, int size) {
    if (kind < 0 || kind > 2 || counts.size() != firsts.size()) throw std::invalid_argument("there is no such input");
    Reader reader{static_cast<Input>(kind), counts, firsts, size, nullptr, nullptr, 0};
    int total = 0;
    for (const int count : counts) total += count;
    if (reader.kind == Input::CHOICES && total != size) throw std::invalid_argument("the choices do not fit the input");
    return reader;
}

}  // namespace engine
