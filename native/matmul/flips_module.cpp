// Python bindings of the flip walks; the stub is src/palaestra/apps/matmul/search/flips.pyi. PythonWalk in
// src/palaestra/apps/matmul/search/flip_walk.py takes the same steps as BinaryWalk.

#include <stdexcept>

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "binary_walk.hpp"
#include "cyclic_walk.hpp"
#include "ternary_walk.hpp"
#include "validation.hpp"

namespace nb = nanobind;
using matmul::BinaryWalk;
using matmul::CyclicWalk;
using matmul::Limits;
using matmul::Scheme;
using matmul::TernaryWalk;

namespace {

template <class AnyWalk>
std::int64_t run(AnyWalk& walk, std::int64_t steps, std::int64_t plus_period, int margin, int target) {
    if (steps < 0 || plus_period < 1 || margin < 0)
        throw std::invalid_argument("steps and margin must be at least 0, and plus_period at least 1");
    nb::gil_scoped_release released;
    return walk.run(Limits{steps, plus_period, margin, target});
}

using SignedMaskRow = std::array<matmul::Mask, 6>;  // for each factor the masks of the coefficients 1 and -1
using SignedMasks = std::vector<SignedMaskRow>;

matmul::SignedScheme decode_signed(const SignedMasks& masks) {
    if (masks.empty() || masks.size() > matmul::MAX_ROWS) throw std::invalid_argument("a scheme has 1 to 4096 rows");
    matmul::SignedScheme scheme;
    for (const SignedMaskRow& row : masks) {
        matmul::SignedRow made{};
        for (int axis = 0; axis < 3; ++axis) {
            made[axis] = {row[2 * axis], row[2 * axis + 1]};
            if (made[axis].is_zero()) throw std::invalid_argument("a row has a factor of zeros");
            if (made[axis].plus & made[axis].minus) throw std::invalid_argument("a coefficient is both 1 and -1");
        }
        scheme.push_back(made);
    }
    return scheme;
}

SignedMasks encode_signed(const matmul::SignedScheme& scheme) {
    SignedMasks masks;
    for (const matmul::SignedRow& row : scheme)
        masks.push_back({row[0].plus, row[0].minus, row[1].plus, row[1].minus, row[2].plus, row[2].minus});
    return masks;
}

std::int64_t run_ternary(TernaryWalk& walk, std::int64_t steps, std::int64_t plus_period, int margin, int target,
                        double temperature) {
    if (steps < 0 || plus_period < 1 || margin < 0 || !(temperature >= 0))
        throw std::invalid_argument("steps, margin and temperature must be at least 0, and plus_period at least 1");
    nb::gil_scoped_release released;
    return walk.run(matmul::TernaryLimits{{steps, plus_period, margin, target}, temperature});
}

}  // namespace

NB_MODULE(flips, module) {
    nb::class_<BinaryWalk>(module, "BinaryWalk")
        .def("__init__",
             [](BinaryWalk* self, const Scheme& current, const Scheme& best, std::uint64_t rng_state,
                std::int64_t since_reduction) {
                 new (self) BinaryWalk(matmul::validated(current), rng_state);
                 self->best = matmul::validated(best);
                 self->since_reduction = since_reduction;
             },
             nb::arg("current"), nb::arg("best"), nb::arg("rng_state"), nb::arg("since_reduction"))
        .def("run", &run<BinaryWalk>, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"))
        .def_prop_ro("current", [](const BinaryWalk& walk) { return walk.current; })
        .def_prop_ro("best", [](const BinaryWalk& walk) { return walk.best; })
        .def_prop_ro("rank", [](const BinaryWalk& walk) { return walk.current.size(); })
        .def_prop_ro("best_rank", [](const BinaryWalk& walk) { return walk.best.size(); })
        .def_prop_ro("rng_state", [](const BinaryWalk& walk) { return walk.rng.state; })
        .def_prop_ro("since_reduction", [](const BinaryWalk& walk) { return walk.since_reduction; });
    nb::class_<CyclicWalk>(module, "CyclicWalk")
        .def("__init__",
             [](CyclicWalk* self, const Scheme& current, const Scheme& best, std::uint64_t rng_state,
                std::int64_t since_reduction) {
                 new (self) CyclicWalk(matmul::validated(current), rng_state);
                 self->best = matmul::validated(best);
                 self->since_reduction = since_reduction;
             },
             nb::arg("current"), nb::arg("best"), nb::arg("rng_state"), nb::arg("since_reduction"))
        .def("run", &run<CyclicWalk>, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"))
        .def_prop_ro("current", [](const CyclicWalk& walk) { return walk.current; })
        .def_prop_ro("best", [](const CyclicWalk& walk) { return walk.best; })
        .def_prop_ro("best_rank", [](const CyclicWalk& walk) { return matmul::cyclic_rank(walk.best); })
        .def_prop_ro("rng_state", [](const CyclicWalk& walk) { return walk.rng.state; })
        .def_prop_ro("since_reduction", [](const CyclicWalk& walk) { return walk.since_reduction; });
    module.def("reduce_scheme", &matmul::reduce_scheme, nb::arg("scheme"));
    nb::class_<TernaryWalk>(module, "TernaryWalk")
        .def("__init__",
             [](TernaryWalk* self, const SignedMasks& current, const SignedMasks& best, std::uint64_t rng_state,
                std::int64_t since_reduction) {
                 new (self) TernaryWalk(decode_signed(current), rng_state);
                 self->best = decode_signed(best);
                 self->since_reduction = since_reduction;
             },
             nb::arg("current"), nb::arg("best"), nb::arg("rng_state"), nb::arg("since_reduction"))
        .def("run", &run_ternary, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"),
             nb::arg("temperature"))
        .def_prop_ro("current", [](const TernaryWalk& walk) { return encode_signed(walk.current); })
        .def_prop_ro("best", [](const TernaryWalk& walk) { return encode_signed(walk.best); })
        .def_prop_ro("best_rank", [](const TernaryWalk& walk) { return walk.best.size(); })
        .def_prop_ro("weight", [](const TernaryWalk& walk) { return walk.weight(); })
        .def_prop_ro("rng_state", [](const TernaryWalk& walk) { return walk.rng.state; })
        .def_prop_ro("since_reduction", [](const TernaryWalk& walk) { return walk.since_reduction; });
}
