// The bindings of a network's forward and backward passes alone: what learners are made of, on arrays of the caller.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstring>

#include "bindings.hpp"
#include "plan_reader.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

using std::to_string;

// A network without cells and tables, and the working memory of one thread.
class NetworkPass {
   public:
    NetworkPass(NetworkPlan plan, std::size_t parameter_count, int capacity, const Kernels& kernels,
                InputGradients input_gradients)
        : network_(std::move(plan), parameter_count, capacity, kernels, input_gradients),
          parameter_count_(parameter_count),
          capacity_(capacity),
          packed_(network_.layout().packed_size),
          input_(static_cast<std::size_t>(capacity) * network_.stride(0)),
          values_(network_.layout().block_size),
          pre_activations_(network_.layout().block_size),
          grads_(network_.layout().block_size),
          gradient_(network_.layout().gradient_size) {
        if (network_.has_memory() || network_.layout().table_count) {
            throw std::invalid_argument("a pass over single samples needs a network without cells and tables");
        }
    }

    void forward(Array<const float> parameters, Array<const float> input) {
        check_size(parameters, parameter_count_, "parameters");
        const std::size_t size = network_.size(0);
        if (input.ndim() != 2 || input.shape(1) != size || input.shape(0) > static_cast<std::size_t>(capacity_)) {
            throw std::invalid_argument("input must have the shape [at most " + to_string(capacity_) + ", " +
                                        to_string(size) + "]");
        }
        rows_ = static_cast<int>(input.shape(0));
        for (int row = 0; row < rows_; ++row) {
            std::memcpy(input_.data() + static_cast<std::size_t>(row) * network_.stride(0), input.data() + row * size,
                        size * sizeof(float));
        }
        network_.kernels().pack(network_.layout(), parameters.data(), packed_.data());
        network_.kernels().forward(network_.layout(), parameters.data(), packed_.data(), block(), EVERYTHING);
    }

    void read_slot(int slot, Array<float> out) const { read_rows(values_, slot, out); }
    void read_input_grads(Array<float> out) const { read_rows(grads_, 0, out); }

    void write_grads(int slot, Array<const float> from) {
        check_rows(slot, from);
        for (int row = 0; row < rows_; ++row) {
            std::memcpy(grads_.data() + place(slot, row),
                        from.data() + static_cast<std::size_t>(row) * network_.size(slot),
                        network_.size(slot) * sizeof(float));
        }
    }

    void backward(Array<const float> parameters, std::pair<int, int> input_columns, nb::handle gradient) {
        check_size(parameters, parameter_count_, "parameters");
        const auto [first, last] = input_columns;
        if (first < 0 || last > network_.size(0) || (first < last && !network_.has_input_gradients())) {
            throw std::invalid_argument("input_columns (" + to_string(first) + ", " + to_string(last) +
                                        ") must be within the " + to_string(network_.size(0)) +
                                        " inputs of a network with input gradients, or empty");
        }
        Block block = this->block();
        block.input_grads = {first, last};
        const NetworkLayout& layout = network_.layout();
        const Kernels& kernels = network_.kernels();
        if (gradient.is_none()) {
            return kernels.backward(layout, parameters.data(), packed_.data(), block, grads_.data(), nullptr);
        }
        auto flat = nb::cast<Array<float>>(gradient, false);
        check_size(flat, parameter_count_, "gradient");
        std::memset(gradient_.data(), 0, layout.gradient_size * sizeof(float));
        kernels.backward(layout, parameters.data(), packed_.data(), block, grads_.data(), gradient_.data());
        kernels.unpack_gradients(layout, gradient_.data(), 1, flat.data());
    }

   private:
    Block block() {
        return {1, rows_, input_.data(), values_.data(), pre_activations_.data(), nullptr, nullptr, nullptr};
    }
    std::size_t place(int slot, int row) const {
        return network_.offset(slot) + static_cast<std::size_t>(row) * network_.stride(slot);
    }
    template <typename A>
    void check_rows(int slot, const A& array) const {
        if (slot < 0 || slot >= network_.slot_count()) {
            throw std::out_of_range("slot " + to_string(slot) + " is not from 0 to " +
                                    to_string(network_.slot_count() - 1));
        }
        check_size(array, static_cast<std::size_t>(rows_) * network_.size(slot), "the array of the slot");
    }
    void read_rows(const FloatArray& from, int slot, Array<float>& out) const {
        check_rows(slot, out);
        for (int row = 0; row < rows_; ++row) {
            std::memcpy(out.data() + static_cast<std::size_t>(row) * network_.size(slot),
                        from.data() + place(slot, row), network_.size(slot) * sizeof(float));
        }
    }

    const Network network_;
    const std::size_t parameter_count_;
    const int capacity_;
    int rows_ = 0;
    FloatArray packed_, input_, values_, pre_activations_, grads_, gradient_;
};

void make_network_pass(NetworkPass* place, nb::handle plan, std::size_t parameter_count, int rows,
                       bool has_input_gradients, const std::string& kernel_name) {
    const Kernels* kernels = find_kernels(kernel_name.c_str());
    if (!kernels) throw std::invalid_argument("this CPU cannot run the kernels '" + kernel_name + "'");
    if (rows < 1) throw std::invalid_argument("rows=" + to_string(rows) + " must be at least 1");
    new (place) NetworkPass(read_network_plan(plan), parameter_count, rows, *kernels,
                            has_input_gradients ? InputGradients::YES : InputGradients::NO);
}

}  // namespace

void bind_network(nb::module_& module) {
    nb::class_<NetworkPass>(module, "NetworkPass")
        .def("__init__", &make_network_pass, "network"_a, "parameter_count"_a, "rows"_a,
             nb::kw_only(), "input_gradients"_a = false, "kernels"_a = "")
        .def("forward", &NetworkPass::forward, "parameters"_a, "inputs"_a)
        .def("read_slot", &NetworkPass::read_slot, "slot"_a, "out"_a)
        .def("write_grads", &NetworkPass::write_grads, "slot"_a, "grads"_a)
        .def("backward", &NetworkPass::backward, "parameters"_a, "input_columns"_a, "gradient"_a.none())
        .def("read_input_grads", &NetworkPass::read_input_grads, "out"_a);
}

}  // namespace engine
