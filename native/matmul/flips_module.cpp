// Python bindings of the flip walks; the stub is src/palaestra/apps/matmul/search/flips.pyi. PythonWalk in
// src/palaestra/apps/matmul/search/flip_walk.py takes the same steps as BinaryWalk.
//
// A row is a list of words: for each factor the words of its mask, and for signed factors those of the mask of the
// coefficients 1, then those of -1. Classes with 128 and 256 in their name have masks of two and four words.

#include <stdexcept>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "binary_walk.hpp"
#include "cyclic_walk.hpp"
#include "signed_walk.hpp"
#include "validation.hpp"

namespace nb = nanobind;
using namespace matmul;

namespace {

using RowWords = std::vector<std::vector<std::uint64_t>>;

template <class Mask>
Mask read_factor(const std::uint64_t* words, const Mask*) {
    const Mask mask = load_mask<Mask>(words);
    if (is_zero(mask)) throw std::invalid_argument("a row has a factor of zeros");
    return mask;
}

template <class Mask>
Signed<Mask> read_factor(const std::uint64_t* words, const Signed<Mask>*) {
    const Signed<Mask> factor{load_mask<Mask>(words), load_mask<Mask>(words + WORDS<Mask>)};
    if (is_zero(factor.support())) throw std::invalid_argument("a row has a factor of zeros");
    if (!is_zero(factor.plus & factor.minus)) throw std::invalid_argument("a coefficient is both 1 and -1");
    return factor;
}

template <class Mask>
void write_factor(const Mask& factor, std::uint64_t* words) {
    store_mask(factor, words);
}

template <class Mask>
void write_factor(const Signed<Mask>& factor, std::uint64_t* words) {
    store_mask(factor.plus, words);
    store_mask(factor.minus, words + WORDS<Mask>);
}

template <class Factor>
std::vector<std::array<Factor, 3>> decode(const RowWords& rows) {
    if (rows.empty() || rows.size() > MAX_ROWS) throw std::invalid_argument("a scheme has 1 to 4096 rows");
    constexpr std::size_t size = WORDS<Factor>;
    std::vector<std::array<Factor, 3>> scheme;
    for (const std::vector<std::uint64_t>& row : rows) {
        if (row.size() != 3 * size) throw std::invalid_argument("a row has another number of words");
        std::array<Factor, 3> made;
        for (std::size_t axis = 0; axis < 3; ++axis)
            made[axis] = read_factor(row.data() + axis * size, static_cast<const Factor*>(nullptr));
        scheme.push_back(made);
    }
    return scheme;
}

template <class Factor>
RowWords encode(const std::vector<std::array<Factor, 3>>& scheme) {
    constexpr std::size_t size = WORDS<Factor>;
    RowWords rows;
    for (const std::array<Factor, 3>& row : scheme) {
        std::vector<std::uint64_t> words(3 * size);
        for (std::size_t axis = 0; axis < 3; ++axis) write_factor(row[axis], words.data() + axis * size);
        rows.push_back(std::move(words));
    }
    return rows;
}

template <class AnyWalk>
std::int64_t run(AnyWalk& walk, std::int64_t steps, std::int64_t plus_period, int margin, int target) {
    if (steps < 0 || plus_period < 1 || margin < 0)
        throw std::invalid_argument("steps and margin must be at least 0, and plus_period at least 1");
    nb::gil_scoped_release released;
    return walk.run(Limits{steps, plus_period, margin, target});
}

template <class AnyWalk>
std::int64_t run_signed(AnyWalk& walk, std::int64_t steps, std::int64_t plus_period, int margin, int target,
                       double temperature) {
    if (steps < 0 || plus_period < 1 || margin < 0 || !(temperature >= 0))
        throw std::invalid_argument("steps, margin and temperature must be at least 0, and plus_period at least 1");
    nb::gil_scoped_release released;
    return walk.run(SignedLimits{{steps, plus_period, margin, target}, temperature});
}

// The part of a binding that all walks of FlipWalk share.
template <class AnyWalk, class Factor>
nb::class_<AnyWalk> bind_walk(nb::module_& module, const char* name) {
    return nb::class_<AnyWalk>(module, name)
        .def("__init__",
             [](AnyWalk* self, const RowWords& current, const RowWords& best, std::uint64_t rng_state,
                std::int64_t since_reduction) {
                 auto kept = decode<Factor>(best);
                 new (self) AnyWalk(decode<Factor>(current), rng_state);
                 self->best = std::move(kept);
                 self->since_reduction = since_reduction;
             },
             nb::arg("current"), nb::arg("best"), nb::arg("rng_state"), nb::arg("since_reduction"))
        .def_prop_ro("current", [](const AnyWalk& walk) { return encode<Factor>(walk.current); })
        .def_prop_ro("best", [](const AnyWalk& walk) { return encode<Factor>(walk.best); })
        .def_prop_ro("rank", [](const AnyWalk& walk) { return walk.current.size(); })
        .def_prop_ro("best_rank", [](const AnyWalk& walk) { return walk.best.size(); })
        .def_prop_ro("rng_state", [](const AnyWalk& walk) { return walk.rng.state; })
        .def_prop_ro("since_reduction", [](const AnyWalk& walk) { return walk.since_reduction; });
}

template <class Mask>
void bind_binary(nb::module_& module, const char* name) {
    using Walk = BinaryWalkOf<Mask>;
    bind_walk<Walk, Mask>(module, name)
        .def("run", &run<Walk>, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"));
}

template <class Mask, class Arithmetic>
void bind_signed(nb::module_& module, const char* name) {
    using Walk = SignedWalk<Mask, Arithmetic>;
    bind_walk<Walk, Signed<Mask>>(module, name)
        .def("run", &run_signed<Walk>, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"),
             nb::arg("temperature") = 0.0)
        .def_prop_ro("weight", [](const Walk& walk) { return walk.weight(); });
}

}  // namespace

NB_MODULE(flips, module) {
    bind_binary<std::uint64_t>(module, "BinaryWalk");
    bind_binary<Words<2>>(module, "BinaryWalk128");
    bind_binary<Words<4>>(module, "BinaryWalk256");
    bind_signed<std::uint64_t, Ternary>(module, "TernaryWalk");
    bind_signed<Words<2>, Ternary>(module, "TernaryWalk128");
    bind_signed<Words<4>, Ternary>(module, "TernaryWalk256");
    bind_signed<std::uint64_t, Modulo3>(module, "Modulo3Walk");
    bind_signed<Words<2>, Modulo3>(module, "Modulo3Walk128");
    bind_signed<Words<4>, Modulo3>(module, "Modulo3Walk256");
    nb::class_<CyclicWalk>(module, "CyclicWalk")
        .def("__init__",
             [](CyclicWalk* self, const Scheme& current, const Scheme& best, std::uint64_t rng_state,
                std::int64_t since_reduction) {
                 new (self) CyclicWalk(validated(current), rng_state);
                 self->best = validated(best);
                 self->since_reduction = since_reduction;
             },
             nb::arg("current"), nb::arg("best"), nb::arg("rng_state"), nb::arg("since_reduction"))
        .def("run", &run<CyclicWalk>, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"))
        .def_prop_ro("current", [](const CyclicWalk& walk) { return walk.current; })
        .def_prop_ro("best", [](const CyclicWalk& walk) { return walk.best; })
        .def_prop_ro("best_rank", [](const CyclicWalk& walk) { return cyclic_rank(walk.best); })
        .def_prop_ro("rng_state", [](const CyclicWalk& walk) { return walk.rng.state; })
        .def_prop_ro("since_reduction", [](const CyclicWalk& walk) { return walk.since_reduction; });
    module.def("reduce_scheme", &reduce_scheme, nb::arg("scheme"));
}
