// A network's plan, validated once and laid out in memory, so that kernels can trust it.
#pragma once

#include <string>
#include <vector>

#include "kernels.hpp"

namespace engine {

// As described by Python (training/engines/network_plan.py). Layers are ordered so that every source is written before
// it is read, and a cell's target follows the layers that write its gates.
struct NetworkPlan {
    std::vector<int> slot_sizes;
    std::vector<Layer> layers;
    std::vector<Table> tables;
    std::vector<Cell> cells;
    std::vector<Norm> norms;
    int action_slot, value_slot;  // outputs; NO_SLOT: a network without it. A value beside actions has size 1
};

struct Range {
    std::size_t begin, end;
};

// Layers that share nothing with the others but their inputs: the whole network, or its action or value part.
struct Part {
    NetworkLayout layout;
    int output_mask;
    std::vector<Range> parameters;
};

// Whether backward passes can compute gradients by the input: it costs a copy of the first layers' weights.
enum class InputGradients { NO, YES };

// One network serves any number of parameter arrays of the same shape (twins, targets); each has its own packed copy:
//
//     const Network critic(plan, count, rows, kernels, InputGradients::YES);
//     kernels.pack(critic.layout(), parameters, packed);               // again whenever the parameters change
//     Block block{1, rows, input, values, pre_activations, nullptr, nullptr, nullptr};
//     kernels.forward(critic.layout(), parameters, packed, block, EVERYTHING);
//     … = values + critic.offset(critic.value_slot);                   // [rows, stride]
//     grads + critic.offset(critic.value_slot) = d loss / d outputs;   // [rows, stride], the padding zero
//     kernels.backward(critic.layout(), parameters, packed, block, grads, gradient);          // gradient += …
//     kernels.unpack_gradients(critic.layout(), gradient, 1, flat);    // in the order of the parameters
//
// `input` is [rows, stride of slot 0], the padding zero; `values` and `grads` are [layout.block_size], `packed` is
// [layout.packed_size], all zeroed once. `pre_activations` [layout.block_size] may be null unless the layout needs them
// for a backward pass. The gradient by the actions in a critic's input, without one by its parameters:
//
//     block.input_grads = {observation_size, observation_size + action_size};
//     kernels.backward(critic.layout(), parameters, packed, block, grads, nullptr);
//     … = grads + critic.offset(0);                                    // [rows, stride]; these columns are valid
class Network {
   public:
    // `rows`: what a block must hold. Throws std::invalid_argument naming the layer, table, cell or norm that does not fit.
    Network(NetworkPlan plan, std::size_t parameter_count, int rows, const Kernels& kernels,
            InputGradients input_gradients = InputGradients::NO);

    const NetworkLayout& layout() const { return layout_; }
    Part whole() const { return {layout_, EVERYTHING, {{0, parameter_count_}}}; }
    // The value and the action part, if there are both and no layer and no parameter serves both; otherwise the whole.
    std::vector<Part> parts() const;
    const Kernels& kernels() const { return kernels_; }
    bool has_memory() const { return !cells_.empty(); }
    bool has_input_gradients() const { return has_input_gradients_; }
    bool has_action() const { return action_slot != NO_SLOT; }
    bool has_value() const { return value_slot != NO_SLOT; }
    int slot_count() const { return static_cast<int>(sizes_.size()); }
    int stride(int slot) const { return strides_[slot]; }
    int size(int slot) const { return sizes_[slot]; }
    std::size_t offset(int slot) const { return offsets_[slot]; }
    std::size_t log_std_gradient() const {
        return log_std_gradient_;
    }  // [stride of the action slot], in a gradient block of a network with actions

    const int action_slot, value_slot;

   private:
    void check();
    void check_layer(const Layer& layer, const std::string& name) const;
    void check_table(const Layer& layer, const std::string& name) const;
    void check_cell(const Cell& cell, const std::string& name) const;
    void check_norm(const Norm& norm, const std::string& name) const;
    void mark_ends();
    void mark_norms();
    void check_order();
    void check_outputs(const std::vector<bool>& is_written, const std::vector<bool>& is_gates) const;
    void mark_uses();
    void split_value_network();
    std::vector<bool> parameters_of(int first_layer, int last_layer) const;
    Part part(int first_layer, int last_layer, std::size_t first_gradient, std::size_t last_gradient) const;
    void mark_additions();
    void mark_completions();
    int add_slot(int size);
    void add_cell_slots();
    void add_norm_slots();
    std::size_t add_vector(std::size_t& size, int slot) const;
    void lay_out_norm(Norm& norm);
    void lay_out_bias(Layer& layer);
    void lay_out_layer(Layer& layer);
    void end_value_part();
    void lay_out(int rows);

    std::vector<int> sizes_;
    std::vector<int> strides_;
    std::vector<std::size_t> offsets_;
    std::vector<Layer> layers_;
    std::vector<Table> tables_;
    std::vector<Cell> cells_;
    std::vector<Norm> norms_;
    const Kernels& kernels_;
    const std::size_t parameter_count_;
    const bool has_input_gradients_;
    int value_layers_ = 0;  // number of the value part's layers, which come first; 0 if there are no separate parts
    std::size_t value_gradient_end_ = 0, action_gradient_begin_ = 0, log_std_gradient_ = 0;  // in a gradient block
    NetworkLayout layout_{};
};

// Throws std::invalid_argument with the message unless the condition holds.
void require(bool holds, const std::string& message);
int gates_of(CellKind kind);
int state_parts_of(CellKind kind);

}  // namespace engine
