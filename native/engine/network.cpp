#include "network.hpp"

#include <stdexcept>
#include <string>

namespace engine {

namespace {

constexpr int NARROW = 16;  // inputs below which slopes of weights are summed turned: the long side must fill registers

int rounded(int size, int width) { return (size + width - 1) / width * width; }

}  // namespace

Network::Network(const std::vector<int>& sizes, std::vector<Layer> layers, std::size_t parameter_count, int action,
                 int value, const Kernels& kernels)
    : action_slot(action), value_slot(value), sizes_(sizes), layers_(std::move(layers)), kernels_(kernels) {
    check(parameter_count);
    mark_uses();
    lay_out();
}

void Network::check(std::size_t parameter_count) const {
    const int slots = static_cast<int>(sizes_.size());
    std::vector<bool> is_written(sizes_.size());
    if (sizes_.empty()) throw std::invalid_argument("a network needs an input");
    is_written[0] = true;
    for (const int size : sizes_) {
        if (size < 1) throw std::invalid_argument("a slot of size " + std::to_string(size));
    }
    for (const Layer& layer : layers_) {
        if (layer.source < 0 || layer.source >= slots || layer.target < 1 || layer.target >= slots ||
            !is_written[layer.source] || is_written[layer.target]) {
            throw std::invalid_argument("layers are not in an order in which they can be computed");
        }
        is_written[layer.target] = true;
        const std::size_t matrix = static_cast<std::size_t>(layer.inputs) * layer.outputs;
        if (layer.inputs != sizes_[layer.source] || layer.outputs != sizes_[layer.target] ||
            layer.weight > parameter_count || parameter_count - layer.weight < matrix ||
            layer.bias > parameter_count || parameter_count - layer.bias < static_cast<std::size_t>(layer.outputs)) {
            throw std::invalid_argument("a layer does not fit its slots or its parameters");
        }
    }
    const auto is_end = [&](int slot) { return slot >= 1 && slot < slots && is_written[slot]; };
    if (!is_end(action_slot) || !is_end(value_slot) || action_slot == value_slot || sizes_[value_slot] != 1) {
        throw std::invalid_argument("the network must end in an action and in one value");
    }
}

void Network::mark_uses() {
    std::vector<bool> acts(sizes_.size()), judges(sizes_.size()), has_slopes(sizes_.size());
    acts[action_slot] = judges[value_slot] = true;
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
        layer->is_for_action = acts[layer->target];
        layer->is_for_value = judges[layer->target];
        if (layer->is_for_action) acts[layer->source] = true;
        if (layer->is_for_value) judges[layer->source] = true;
        if (!layer->is_for_action && !layer->is_for_value) throw std::invalid_argument("a layer that nobody reads");
        layer->adds_to_source = has_slopes[layer->source];
        has_slopes[layer->source] = true;
    }
    for (const int end : {action_slot, value_slot}) {
        if (has_slopes[end]) throw std::invalid_argument("an end of the network is read by a layer");
    }
}

void Network::lay_out() {
    const int width = kernels_.width;
    std::size_t block = 0, packed = 0, slopes = 0;
    for (const int size : sizes_) {
        strides_.push_back(rounded(size, width));
        places_.push_back(block);
        block += static_cast<std::size_t>(ROWS) * strides_.back();
    }
    bool keeps = false;
    for (Layer& layer : layers_) {
        const std::size_t in_stride = strides_[layer.source], out_stride = strides_[layer.target];
        layer.packed = packed;
        packed += (layer.inputs + 1) * out_stride;
        layer.widened = NOWHERE;
        if (layer.source && layer.inputs % width) {
            layer.widened = packed;
            packed += layer.outputs * in_stride;
        }
        layer.is_turned = layer.inputs < NARROW && layer.outputs > layer.inputs;
        layer.slope = slopes;
        slopes += layer.is_turned ? layer.inputs * out_stride : layer.outputs * in_stride;
        layer.bias_slope = slopes;
        slopes += out_stride;
        keeps = keeps || layer.activation == Activation::GELU;
    }
    log_std_slope_ = slopes;
    slopes += strides_[action_slot];
    plan_ = {layers_.data(), static_cast<int>(layers_.size()), strides_.data(), places_.data(), packed, slopes, block,
             keeps};
}

}  // namespace engine
