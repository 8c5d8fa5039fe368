// A plan with the memory that it points to, checked once, so that kernels may trust it.
#pragma once

#include <vector>

#include "kernels.hpp"

namespace engine {

struct Range {
    std::size_t begin, end;
};

// Layers that share nothing with the others but what they read: the whole network, or one end of it.
struct Part {
    Plan plan;
    int wanted;                      // of which ends
    std::vector<Range> parameters;  // that are its own
};

class Network {
   public:
    // `sizes` of the slots; layers in an order in which every source is written before it is read, a cell's target
    // behind the layers that write its gates. `rows`: what a block must hold.
    Network(const std::vector<int>& sizes, std::vector<Layer> layers, std::vector<Table> tables,
            std::vector<Cell> cells, std::size_t parameter_count, int action_slot, int value_slot, int rows,
            const Kernels& kernels);

    const Plan& plan() const { return plan_; }
    Part whole() const { return {plan_, EVERYTHING, {{0, parameter_count_}}}; }
    // Value and action, where no layer serves both; else the whole.
    std::vector<Part> parts() const;
    const Kernels& kernels() const { return kernels_; }
    bool has_memory() const { return !cells_.empty(); }
    int stride(int slot) const { return strides_[slot]; }
    int size(int slot) const { return sizes_[slot]; }
    std::size_t place(int slot) const { return places_[slot]; }
    std::size_t log_std_slope() const { return log_std_slope_; }  // [stride of the action slot], in a block of slopes

    const int action_slot, value_slot;

   private:
    void check(std::size_t parameter_count);
    void check_layer(const Layer& layer, std::size_t parameter_count) const;
    void check_table(const Layer& layer, std::size_t parameter_count) const;
    void mark_ends();
    void check_order();
    void check_cell(const Cell& cell, std::size_t parameter_count) const;
    void mark_uses();
    void set_value_apart();
    std::vector<bool> parameters_of(int first_layer, int last_layer) const;
    Part part(int first_layer, int last_layer, std::size_t first_slope, std::size_t last_slope) const;
    void mark_finishers();
    int add_slot(int size);
    void add_cell_slots();
    void lay_out_bias(Layer& layer);
    void lay_out_layer(Layer& layer);
    void end_value_part();
    void lay_out(int rows);

    std::vector<int> sizes_;
    std::vector<int> strides_;
    std::vector<std::size_t> places_;
    std::vector<Layer> layers_;
    std::vector<Table> tables_;
    std::vector<Cell> cells_;
    const Kernels& kernels_;
    const std::size_t parameter_count_;
    int value_layers_ = 0;  // in front of all others, where those are not for the value; else 0
    std::size_t value_slopes_ = 0, action_slopes_ = 0, log_std_slope_ = 0;  // where the first ends, the others begin
    Plan plan_{};
};

int gates_of(CellKind kind);
int state_parts_of(CellKind kind);

}  // namespace engine
