// Sums of embedding-table rows selected by bytes, and their gradients; see src/palaestra/policies/components/codes.py.
//
// torch's embedding_bag sorts all indices in its backward pass. With one byte per cell no sorting is needed, and the
// table's rows stay in the cache: an 11 x 11 view takes a seventh of the time.

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "../dispatch.hpp"
#include "ops.hpp"

namespace nb = nanobind;

namespace {

using Codes = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // [rows, cells]
using Table = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;         // [cells, codes, size]
using TableGradient = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;       // [cells, codes, size]
using Sums = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;                // [rows, size]
using SumGradient = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;   // [rows, size]

struct Shape {
    std::size_t rows, cells, codes, size;
};

PALAESTRA_CLONES
void add_rows(const std::uint8_t* codes, const float* table, float* sums, const Shape& shape, std::size_t first,
              std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
        float* sum = sums + row * shape.size;
        std::memset(sum, 0, shape.size * sizeof(float));
        const std::uint8_t* code = codes + row * shape.cells;
        for (std::size_t cell = 0; cell < shape.cells; ++cell) {
            if (code[cell] == 0) continue;
            const float* entry = table + (cell * shape.codes + code[cell] - 1) * shape.size;
            for (std::size_t k = 0; k < shape.size; ++k) sum[k] += entry[k];
        }
    }
}

// Each thread has its own cells, so that no two write the same entry and the order of additions does not change.
PALAESTRA_CLONES
void add_gradients(const std::uint8_t* codes, const float* grads, float* table_gradient, const Shape& shape,
                   std::size_t first, std::size_t last) {
    for (std::size_t row = 0; row < shape.rows; ++row) {
        const std::uint8_t* code = codes + row * shape.cells;
        const float* grad = grads + row * shape.size;
        for (std::size_t cell = first; cell < last; ++cell) {
            if (code[cell] == 0) continue;
            float* entry = table_gradient + (cell * shape.codes + code[cell] - 1) * shape.size;
            for (std::size_t k = 0; k < shape.size; ++k) entry[k] += grad[k];
        }
    }
}

// A code that is too large would read beyond the table. The check takes 1 % of the time.
PALAESTRA_CLONES
std::uint8_t largest_code(const std::uint8_t* codes, std::size_t count) {
    std::uint8_t largest = 0;
    for (std::size_t k = 0; k < count; ++k) largest = codes[k] > largest ? codes[k] : largest;
    return largest;
}

Shape checked(const Codes& codes, std::size_t cells, std::size_t count, std::size_t size, std::size_t rows,
              std::size_t width) {
    if (codes.shape(0) != rows || codes.shape(1) != cells || width != size) {
        throw std::invalid_argument("codes [" + std::to_string(codes.shape(0)) + ", " + std::to_string(codes.shape(1)) +
                                    "], a table [" + std::to_string(cells) + ", " + std::to_string(count) + ", " +
                                    std::to_string(size) + "] and sums [" + std::to_string(rows) + ", " +
                                    std::to_string(width) + "] do not match");
    }
    const std::uint8_t largest = largest_code(codes.data(), codes.size());
    if (largest > count) {
        throw std::invalid_argument("code " + std::to_string(largest) + " has no entry in a table of " +
                                    std::to_string(count));
    }
    return {rows, cells, count, size};
}

void sums(Codes codes, Table table, Sums out, int threads) {
    const Shape shape = checked(codes, table.shape(0), table.shape(1), table.shape(2), out.shape(0), out.shape(1));
    const nb::gil_scoped_release without_gil;
    split(shape.rows, threads, [&](std::size_t first, std::size_t last) {
        add_rows(codes.data(), table.data(), out.data(), shape, first, last);
    });
}

void sums_backward(Codes codes, SumGradient gradient, TableGradient out, int threads) {
    const Shape shape = checked(codes, out.shape(0), out.shape(1), out.shape(2), gradient.shape(0), gradient.shape(1));
    const nb::gil_scoped_release without_gil;
    split(shape.cells, threads, [&](std::size_t first, std::size_t last) {
        add_gradients(codes.data(), gradient.data(), out.data(), shape, first, last);
    });
}

}  // namespace

NB_MODULE(native_ops, module) {
    module.doc() = "Operations that torch does not have, or only a slow version of.";
    module.def("code_sums", &sums, nb::arg("codes"), nb::arg("table"), nb::arg("out"), nb::arg("threads") = 1);
    module.def("code_sums_backward", &sums_backward, nb::arg("codes"), nb::arg("gradient"), nb::arg("out"),
               nb::arg("threads") = 1);
    bind_tanh(module);
}
