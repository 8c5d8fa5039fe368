// Python bindings of the guided walk; the stub is src/palaestra/apps/matmul/search/guided.pyi.

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "validation.hpp"
#include "guided_walk.hpp"

namespace nb = nanobind;
using matmul::Features;
using matmul::GuidedWalk;
using matmul::Scheme;

NB_MODULE(guided, module) {
    module.attr("FEATURES") = matmul::FEATURES;
    nb::class_<GuidedWalk>(module, "GuidedWalk")
        .def("__init__",
             [](GuidedWalk* self, const Scheme& scheme, const Features& weights, std::uint64_t rng_state) {
                 new (self) GuidedWalk(matmul::validated(scheme), weights, rng_state);
             },
             nb::arg("scheme"), nb::arg("weights"), nb::arg("rng_state"))
        .def("run",
             [](GuidedWalk& walk, std::int64_t steps, int target) {
                 nb::gil_scoped_release released;
                 return walk.run(steps, target);
             },
             nb::arg("steps"), nb::arg("target"))
        .def("features", &GuidedWalk::features)
        .def("take",
             [](GuidedWalk& walk, std::size_t flip) {
                 if (flip >= walk.features().size()) throw std::out_of_range("flip index out of range");
                 walk.take(flip);
             },
             nb::arg("flip"))
        .def_prop_ro("current", [](const GuidedWalk& walk) { return walk.current; })
        .def_prop_ro("rank", [](const GuidedWalk& walk) { return walk.current.size(); })
        .def_prop_ro("rng_state", [](const GuidedWalk& walk) { return walk.rng.state; });
}
