// Written by benchmarks/fit_tanh.py: largest relative error 6.2 x 2^-24 in single precision.
#pragma once

namespace engine {

constexpr float TANH_LIMIT = 9.0f;
constexpr int TANH_ABOVE_COUNT = 6, TANH_BELOW_COUNT = 5;
constexpr float TANH_ABOVE[] = {9.999999987e-01f, 1.368085637e-01f, 3.869507912e-03f, 2.803130946e-05f, 3.064252459e-08f, -1.224624406e-11f};
constexpr float TANH_BELOW[] = {1.000000000e+00f, 4.701418846e-01f, 2.725015631e-02f, 3.940713246e-04f, 1.289034997e-06f};

}  // namespace engine
