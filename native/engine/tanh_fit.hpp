// Written by benchmarks/fit_tanh.py: largest relative error 5.5 x 2^-24 in single precision.
#pragma once

namespace engine {

constexpr float TANH_LIMIT = 9.0f;
constexpr int TANH_ABOVE_COUNT = 5, TANH_BELOW_COUNT = 5;
constexpr float TANH_ABOVE[] = {9.999999795e-01f, 1.338102767e-01f, 3.495590477e-03f, 2.060911824e-05f, 1.335470598e-08f};
constexpr float TANH_BELOW[] = {1.000000000e+00f, 4.671434327e-01f, 2.587699131e-02f, 3.285638544e-04f, 7.776577634e-07f};

}  // namespace engine
