#include "trained_network.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

namespace engine {

Pass::Pass(const Network& network)
    : network_(&network),
      input_(static_cast<std::size_t>(ROWS) * network.stride(0)),
      values_(network.layout().block_size),
      pre_activations_(network.layout().needs_pre_activations ? network.layout().block_size : 0),
      grads_(network.layout().block_size) {}

void Pass::forward(const Weights& weights, const float* input, int rows) {
    float* pre_activations = network_->layout().needs_pre_activations ? pre_activations_.data() : nullptr;
    block_ = {1, rows, input, values_.data(), pre_activations, nullptr, nullptr, nullptr};
    network_->kernels().forward(network_->layout(), weights.values(), weights.packed(), block_, EVERYTHING);
}

void Pass::backward(const Weights& weights, float* gradient) {
    block_.input_grads = {0, 0};
    network_->kernels().backward(network_->layout(), weights.values(), weights.packed(), block_, grads_.data(),
                                 gradient);
}

const float* Pass::input_grads(const Weights& weights, int first, int last) {
    block_.input_grads = {first, last};
    network_->kernels().backward(network_->layout(), weights.values(), weights.packed(), block_, grads_.data(),
                                 nullptr);
    return grads_.data() + network_->offset(0);
}

namespace {

// The factor of RAdam's step, or 0 while the variance of its second moment is unknown (Liu et al., 2020).
double rectification(double beta2, double count) {
    const double longest = 2 / (1 - beta2) - 1, power = std::pow(beta2, count);
    const double length = longest - 2 * count * power / (1 - power);
    if (length <= 5) return 0;
    return std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
}

}  // namespace

AdamStep adam_step(const AdamConfig& config, double learning_rate, double count, double norm) {
    const double correction1 = 1 - std::pow(static_cast<double>(config.beta1), count);
    const double correction2 = 1 - std::pow(static_cast<double>(config.beta2), count);
    AdamStep step{};
    step.scale = norm > config.max_grad_norm ? static_cast<float>(config.max_grad_norm / (norm + 1e-6)) : 1.0f;
    step.beta1 = config.beta1;
    step.beta2 = config.beta2;
    step.epsilon = config.epsilon;
    step.step_size = static_cast<float>(learning_rate / correction1);
    step.inverse_sqrt_correction2 = static_cast<float>(1 / std::sqrt(correction2));
    step.decay = static_cast<float>(1 - learning_rate * config.weight_decay);
    if (!config.is_rectified) return step;
    const double factor = rectification(config.beta2, count);
    if (factor > 0) {  // torch adds epsilon before it corrects the second moment
        step.step_size = static_cast<float>(learning_rate / correction1 * factor * std::sqrt(correction2));
        step.inverse_sqrt_correction2 = 1;
    } else {  // the first moment alone: the denominator is 0 + 1
        step.inverse_sqrt_correction2 = 0;
        step.epsilon = 1;
    }
    return step;
}

TrainedNetwork::TrainedNetwork(const Network& network, int copies, Parameters parameters, const AdamConfig& adam)
    : network_(&network), parameters_(parameters), adam_(adam), squared_sums_(copies) {
    if (copies < 1 || parameters.count % copies) {
        throw std::invalid_argument(std::to_string(parameters.count) + " parameters are not those of " +
                                    std::to_string(copies) + " networks of equal size");
    }
    for (int copy = 0; copy < copies; ++copy) {
        weights_.emplace_back(network, parameters.values + copy * (parameters.count / copies));
    }
}

void TrainedNetwork::pack() {
    for (Weights& weights : weights_) weights.pack();
}

void TrainedNetwork::reserve(int slices) {
    if (slices <= slices_) return;
    gradients_ = FloatArray(network_->layout().gradient_size * slices * weights_.size());
    slices_ = slices;
}

float* TrainedNetwork::gradient(int slice, int copy) {
    return gradients_.data() + network_->layout().gradient_size * (static_cast<std::size_t>(copy) * slices_ + slice);
}

float* TrainedNetwork::begin_gradient(int slice, int copy) {
    float* block = gradient(slice, copy);
    std::memset(block, 0, network_->layout().gradient_size * sizeof(float));
    return block;
}

void TrainedNetwork::for_each_copy(palaestra::ThreadPool& pool, const std::function<void(int)>& work) const {
    if (pool.size() == 1 || copies() == 1) {
        for (int copy = 0; copy < copies(); ++copy) work(copy);
        return;
    }
    pool.run([&](int worker) {
        for (int copy = worker; copy < copies(); copy += pool.size()) work(copy);
    });
}

double TrainedNetwork::step(int slices, double learning_rate, palaestra::ThreadPool& pool, Reducer* reducer) {
    const Kernels& kernels = network_->kernels();
    const auto square = [&](int copy) {
        squared_sums_[copy] = kernels.squared_sum(parameters_.gradient + copy * size(), size());
    };
    for_each_copy(pool, [&](int copy) {
        kernels.unpack_gradients(network_->layout(), gradient(0, copy), slices, parameters_.gradient + copy * size());
        if (!reducer) square(copy);  // while the gradient is in this core's cache
    });
    if (reducer) {
        reducer->average(parameters_.gradient, parameters_.count);
        for_each_copy(pool, square);
    }
    double sum = 0;
    for (const double part : squared_sums_) sum += part;
    const double norm = std::sqrt(sum);
    if (!std::isfinite(norm)) return norm;
    const AdamStep step = adam_step(adam_, learning_rate, *parameters_.step_count += 1, norm);
    for_each_copy(pool, [&](int copy) {
        const std::size_t first = copy * size();
        kernels.adam(step, size(), parameters_.values + first, parameters_.gradient + first,
                     parameters_.exp_avg + first, parameters_.exp_avg_sq + first);
        weights_[copy].pack();
    });
    return norm;
}

TargetNetwork::TargetNetwork(const TrainedNetwork& online, float* values, std::size_t count)
    : kernels_(online.network().kernels()), values_(values), count_(count) {
    for (int copy = 0; copy < online.copies(); ++copy) {
        weights_.emplace_back(online.network(), values + copy * (count / online.copies()));
    }
}

void TargetNetwork::pack() {
    for (Weights& weights : weights_) weights.pack();
}

void TargetNetwork::follow(const float* online, float tau) {
    if (tau == 1) {
        std::memcpy(values_, online, count_ * sizeof(float));
    } else {
        kernels_.follow(tau, count_, online, values_);
    }
    pack();
}

}  // namespace engine
