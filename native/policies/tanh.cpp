// tanh of large arrays; src/palaestra/policies/activations.py says why not torch's.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "../dispatch.hpp"
#include "../engine/tanh_fit.hpp"
#include "ops.hpp"

namespace nb = nanobind;

namespace {

using Numbers = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Outputs = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The rational approximation of the native engine. NaN fails both comparisons and is kept.
PALAESTRA_CLONES
void tanh_range(const float* __restrict numbers, float* __restrict out, std::size_t first, std::size_t last) {
    using namespace engine;
    for (std::size_t k = first; k < last; ++k) {
        float x = numbers[k] > TANH_LIMIT ? TANH_LIMIT : numbers[k];
        x = x < -TANH_LIMIT ? -TANH_LIMIT : x;
        const float square = x * x;
        float above = TANH_ABOVE[TANH_ABOVE_COUNT - 1], below = TANH_BELOW[TANH_BELOW_COUNT - 1];
#pragma GCC unroll 8
        for (int power = TANH_ABOVE_COUNT - 2; power >= 0; --power) above = above * square + TANH_ABOVE[power];
#pragma GCC unroll 8
        for (int power = TANH_BELOW_COUNT - 2; power >= 0; --power) below = below * square + TANH_BELOW[power];
        out[k] = x * above / below;
    }
}

void tanh_of(Numbers numbers, Outputs out, int threads) {
    if (numbers.size() != out.size()) {
        throw std::invalid_argument("out has " + std::to_string(out.size()) + " entries for " +
                                    std::to_string(numbers.size()) + " numbers");
    }
    const nb::gil_scoped_release without_gil;
    split(numbers.size(), threads,
          [&](std::size_t first, std::size_t last) { tanh_range(numbers.data(), out.data(), first, last); });
}

}  // namespace

void bind_tanh(nb::module_& module) {
    module.def("tanh", &tanh_of, nb::arg("numbers"), nb::arg("out"), nb::arg("threads") = 1);
}
