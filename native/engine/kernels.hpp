// What takes the time, compiled once per family of processors and chosen when the module is loaded.
#pragma once

#include <cstddef>

#include "plan.hpp"

namespace engine {

struct AdamStep {
    float scale;  // of the gradient, where it is clipped
    float beta1, beta2, epsilon;
    float step_size;       // learning rate over the first bias correction
    float inverse_spread;  // one over the root of the second bias correction
    float keep;            // 1 - learning rate * weight decay
};

enum Wanted : int { FOR_ACTION = 1, FOR_VALUE = 2, EVERYTHING = 3 };

struct Kernels {
    const char* name;
    int width;  // floats in a register

    // The parameters in the order in which a forward pass reads them.
    void (*pack)(const Plan& plan, const float* parameters, float* packed);
    void (*forward)(const Plan& plan, const float* packed, const Block& block, int wanted);
    // Adds to `gradient` (a block of slopes) what `slopes` of the last slots, laid out as the block's values, mean for
    // the parameters.
    void (*backward)(const Plan& plan, const float* parameters, const float* packed, const Block& block, float* slopes,
                     float* gradient);
    // Adds `count` blocks of slopes up in the first, and gives it in the parameters' order.
    void (*spread)(const Plan& plan, float* gradients, int count, float* flat);
    double (*squares)(const float* numbers, std::size_t count);
    void (*adam)(const AdamStep& step, std::size_t count, float* parameters, float* gradient, float* mean,
                 float* spread);
};

// The best that this processor can run; `name` forces one, and null comes back where it cannot run here.
const Kernels& best_kernels();
const Kernels* kernels_called(const char* name);

}  // namespace engine
