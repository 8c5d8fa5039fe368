// What off-policy learners make of a network: passes of a few samples, one or two copies that Adam steps as one block,
// and targets that follow them. Parameters belong to Python.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "collectives.hpp"
#include "learner.hpp"
#include "network.hpp"

namespace engine {

constexpr int BATCH_SLICE = 128;  // samples whose gradient is one sum; slices are added in order

// Parameters, and the copy of them that passes read.
class Weights {
   public:
    Weights(const Network& network, const float* values)
        : network_(&network), values_(values), packed_(network.layout().packed_size) {}
    void pack() { network_->kernels().pack(network_->layout(), values_, packed_.data()); }
    const float* values() const { return values_; }
    const float* packed() const { return packed_.data(); }

   private:
    const Network* network_;
    const float* values_;
    FloatArray packed_;
};

// The activations of at most ROWS samples on their way through a network.
class Pass {
   public:
    explicit Pass(const Network& network);
    // Where the caller writes samples: [rows, input_stride], the padding zero.
    float* input() { return input_.data(); }
    std::size_t input_stride() const { return network_->stride(0); }

    // Reads `input`, which is the own one or another array of that layout. It must stay until `backward`.
    void forward(const Weights& weights, const float* input, int rows);
    void forward(const Weights& weights, int rows) { forward(weights, input_.data(), rows); }
    // After it: [rows, stride of the slot].
    const float* output(int slot) const { return values_.data() + network_->offset(slot); }
    std::size_t stride(int slot) const { return network_->stride(slot); }
    // d loss / d output, to be written before `backward`.
    float* output_grads(int slot) { return grads_.data() + network_->offset(slot); }
    // Adds to `gradient`, a gradient block.
    void backward(const Weights& weights, float* gradient);
    // Instead: d loss / d input, in columns [first, last) of the result [rows, input_stride].
    const float* input_grads(const Weights& weights, int first, int last);

   private:
    const Network* network_;
    FloatArray input_, values_, pre_activations_, grads_;
    Block block_{};
};

struct AdamConfig {
    float beta1, beta2, epsilon, weight_decay;
    bool is_rectified;    // RAdam
    float max_grad_norm;  // gradients are scaled down to it; infinite: they are not
};

// The step after `count` others, as torch.optim.Adam, AdamW or RAdam make it.
AdamStep adam_step(const AdamConfig& config, double learning_rate, double count, double norm);

// `copies` of a network, one behind the other in the parameters.
class TrainedNetwork {
   public:
    TrainedNetwork(const Network& network, int copies, Parameters parameters, const AdamConfig& adam);

    const Network& network() const { return *network_; }
    int copies() const { return static_cast<int>(weights_.size()); }
    std::size_t parameter_count() const { return parameters_.count; }
    const Weights& weights(int copy = 0) const { return weights_[copy]; }
    // After Python may have changed the parameters.
    void pack();
    void reserve(int slices);
    // The gradient block of a slice; `begin_gradient` zeroes it.
    float* gradient(int slice, int copy);
    float* begin_gradient(int slice, int copy);
    // Sums the slices and steps; the gradient's norm before clipping. If that is not finite, no step was taken.
    double step(int slices, double learning_rate, palaestra::ThreadPool& pool, Reducer* reducer);

   private:
    std::size_t size() const { return parameters_.count / weights_.size(); }  // of one copy
    void for_each_copy(palaestra::ThreadPool& pool, const std::function<void(int)>& work) const;

    const Network* network_;
    const Parameters parameters_;
    const AdamConfig adam_;
    std::vector<Weights> weights_;
    FloatArray gradients_;  // [copies, slices, gradient_size]
    int slices_ = 0;
    std::vector<double> squared_sums_;
};

class TargetNetwork {
   public:
    // `values`: [parameters of `online`]
    TargetNetwork(const TrainedNetwork& online, float* values, std::size_t count);
    const Weights& weights(int copy = 0) const { return weights_[copy]; }
    void pack();
    // Goes the part `tau` of the way to `online`; 1: becomes equal.
    void follow(const float* online, float tau);

   private:
    const Kernels& kernels_;
    float* values_;
    const std::size_t count_;
    std::vector<Weights> weights_;
};

}  // namespace engine
