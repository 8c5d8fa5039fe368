#include "plan_reader.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>

namespace nb = nanobind;

namespace engine {

namespace {

using std::to_string;

// A Python object whose attributes are read by name.
class Fields {
   public:
    explicit Fields(nb::handle object) : object_(nb::borrow(object)), type_(nb::type_name(object.type()).c_str()) {}

    std::string name_of(const char* field) const { return type_ + "." + field; }

    nb::object get(const char* field) const {
        if (!nb::hasattr(object_, field)) throw nb::type_error((type_ + " has no field '" + field + "'").c_str());
        return object_.attr(field);
    }

    template <typename T>
    T read(const char* field) const {
        const nb::object value = get(field);
        T result{};
        if (!nb::try_cast<T>(value, result)) {
            const std::string repr = nb::cast<std::string>(nb::repr(value));
            throw nb::type_error((name_of(field) + " has an invalid type or is out of range: " + repr).c_str());
        }
        return result;
    }

    template <typename E>
    E read_enum(const char* field, E last) const {
        const int number = read<int>(field);
        if (number < 0 || number > static_cast<int>(last)) {
            throw std::invalid_argument(name_of(field) + " is " + to_string(number) + " (must be from 0 to " +
                                        to_string(static_cast<int>(last)) + ")");
        }
        return static_cast<E>(number);
    }

    // None: no such parameter.
    std::size_t read_optional_offset(const char* field) const {
        return get(field).is_none() ? NO_OFFSET : read<std::size_t>(field);
    }

    // None: no such output.
    int read_optional_slot(const char* field) const { return get(field).is_none() ? NO_SLOT : read<int>(field); }

    nb::object read_items(const char* field) const { return get(field); }

   private:
    const nb::object object_;
    const std::string type_;
};

Table read_table(const Fields& plan) {
    Table table{};
    table.target = plan.read<int>("target");
    table.cells = plan.read<int>("cells");
    table.rows_per_cell = plan.read<int>("rows_per_cell");
    table.size = plan.read<int>("size");
    table.clips_codes = plan.read<bool>("clips_codes");
    table.weight = plan.read<std::size_t>("weight_offset");
    return table;
}

// The layer through which a table adds to its target.
Layer read_table_layer(const Fields& plan, int number) {
    Layer layer{};
    layer.target = plan.read<int>("target");
    layer.outputs = plan.read<int>("size");
    layer.bias = plan.read_optional_offset("bias_offset");
    layer.activation = plan.read_enum("activation", Activation::GELU);
    layer.table = number;
    return layer;
}

Layer read_layer(const Fields& plan) {
    Layer layer{};
    layer.source = plan.read<int>("source");
    layer.target = plan.read<int>("target");
    layer.inputs = plan.read<int>("inputs");
    layer.outputs = plan.read<int>("outputs");
    layer.weight = plan.read_optional_offset("weight_offset");
    layer.is_identity = layer.weight == NO_OFFSET;
    layer.weight_row = plan.read<std::size_t>("weight_row_stride");
    layer.bias = plan.read_optional_offset("bias_offset");
    layer.activation = plan.read_enum("activation", Activation::GELU);
    layer.table = NO_TABLE;
    return layer;
}

Norm read_norm(const Fields& plan) {
    Norm norm{};
    norm.target = plan.read<int>("target");
    norm.size = plan.read<int>("size");
    norm.weight = plan.read<std::size_t>("weight_offset");
    norm.bias = plan.read<std::size_t>("bias_offset");
    norm.epsilon = plan.read<float>("epsilon");
    return norm;
}

Cell read_cell(const Fields& plan) {
    Cell cell{};
    cell.kind = plan.read_enum("kind", CellKind::GRU);
    cell.size = plan.read<int>("size");
    cell.gates = plan.read<int>("gates");
    cell.target = plan.read<int>("target");
    if (cell.kind == CellKind::MINGRU) return cell;
    cell.recurrent.weight = plan.read<std::size_t>("recurrent_weight_offset");
    cell.recurrent.bias = plan.read<std::size_t>("recurrent_bias_offset");
    return cell;
}

}  // namespace

// Table layers come first: they read no slot.
NetworkPlan read_network_plan(nb::handle plan) {
    const Fields fields(plan);
    NetworkPlan network{};
    network.slot_sizes = fields.read<std::vector<int>>("slot_sizes");
    network.action_slot = fields.read_optional_slot("action_slot");
    network.value_slot = fields.read_optional_slot("value_slot");
    for (nb::handle table : fields.read_items("tables")) {
        const Fields table_fields(table);
        network.layers.push_back(read_table_layer(table_fields, static_cast<int>(network.tables.size())));
        network.tables.push_back(read_table(table_fields));
    }
    for (nb::handle layer : fields.read_items("layers")) network.layers.push_back(read_layer(Fields(layer)));
    for (nb::handle cell : fields.read_items("cells")) network.cells.push_back(read_cell(Fields(cell)));
    for (nb::handle norm : fields.read_items("norms")) network.norms.push_back(read_norm(Fields(norm)));
    return network;
}

std::size_t read_log_std_offset(nb::handle network_plan) {
    return Fields(network_plan).read_optional_offset("log_std_offset");
}

HeadPlan read_head_plan(nb::handle plan, std::size_t log_std_offset, std::size_t parameter_count) {
    const Fields fields(plan);
    HeadPlan head{fields.read_enum("kind", HeadKind::GAUSSIAN), fields.read<std::vector<int>>("counts"), 0,
                  log_std_offset};
    if (head.counts.empty()) throw std::invalid_argument(fields.name_of("counts") + " is empty");
    for (const int count : head.counts) {
        if (count < 1) throw std::invalid_argument(fields.name_of("counts") + " has an entry of " + to_string(count));
        head.size += head.kind == HeadKind::GAUSSIAN ? 1 : count;
    }
    if (head.kind == HeadKind::CATEGORICAL && head.parts() > MAX_PARTS) {
        throw std::invalid_argument(fields.name_of("counts") + " has " + to_string(head.parts()) +
                                    " entries (at most " + to_string(MAX_PARTS) + ")");
    }
    if (head.kind == HeadKind::GAUSSIAN &&
        (log_std_offset > parameter_count || parameter_count - log_std_offset < head.counts.size())) {
        throw std::invalid_argument("log_std_offset is not within the " + to_string(parameter_count) + " parameters");
    }
    return head;
}

ObservationReader read_input_plan(nb::handle plan) {
    const Fields fields(plan);
    ObservationReader reader{fields.read_enum("kind", InputKind::CATEGORICAL),
                             fields.read<std::vector<int>>("counts"),
                             fields.read<std::vector<int>>("starts"),
                             fields.read<int>("size"),
                             nullptr,
                             nullptr,
                             0};
    if (reader.counts.size() != reader.starts.size()) {
        throw std::invalid_argument(fields.name_of("counts") + " and starts have different lengths");
    }
    int total = 0;
    for (const int count : reader.counts) total += count;
    if (reader.kind == InputKind::CATEGORICAL && total != reader.size) {
        throw std::invalid_argument(fields.name_of("counts") + " sum to " + to_string(total) + ", not to size " +
                                    to_string(reader.size));
    }
    return reader;
}

}  // namespace engine
