// The guided walk for Python; its stub is src/palaestra/apps/matmul/guided.pyi.

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "checked.hpp"
#include "guided.hpp"

namespace nb = nanobind;
using matmul::Features;
using matmul::GuidedWalk;
using matmul::Scheme;

NB_MODULE(guided, module) {
    module.attr("FEATURES") = matmul::FEATURES;
    nb::class_<GuidedWalk>(module, "GuidedWalk")
        .def("__init__",
             [](GuidedWalk* place, const Scheme& scheme, const Features& weights, std::uint64_t dice) {
                 new (place) GuidedWalk(matmul::checked(scheme), weights, dice);
             },
             nb::arg("scheme"), nb::arg("weights"), nb::arg("dice"))
        .def("go",
             [](GuidedWalk& walk, std::int64_t steps, int target) {
                 nb::gil_scoped_release released;
                 return walk.go(steps, target);
             },
             nb::arg("steps"), nb::arg("target"))
        .def("features", &GuidedWalk::features)
        .def("take",
             [](GuidedWalk& walk, std::size_t flip) {
                 if (flip >= walk.features().size()) throw std::out_of_range("there is no such flip");
                 walk.take(flip);
             },
             nb::arg("flip"))
        .def_prop_ro("current", [](const GuidedWalk& walk) { return walk.current; })
        .def_prop_ro("rank", [](const GuidedWalk& walk) { return walk.current.size(); })
        .def_prop_ro("dice", [](const GuidedWalk& walk) { return walk.dice.state; });
}
