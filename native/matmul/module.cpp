// The walk for Python; src/palaestra/apps/matmul/search/flip_walk.py is the same in Python, step by step.

#include <stdexcept>

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "checked.hpp"
#include "ternary.hpp"
#include "turning.hpp"
#include "walk.hpp"

namespace nb = nanobind;
using matmul::Limits;
using matmul::Scheme;
using matmul::TernaryWalk;
using matmul::TurningWalk;
using matmul::Walk;

namespace {

template <class SomeWalk>
std::int64_t go(SomeWalk& walk, std::int64_t steps, std::int64_t plus_period, int margin, int target) {
    if (steps < 0 || plus_period < 1 || margin < 0) throw std::invalid_argument("steps, plus_period or margin is wrong");
    nb::gil_scoped_release released;
    return walk.go(Limits{steps, plus_period, margin, target});
}

using PlainRow = std::array<matmul::Mask, 6>;  // for each factor what is added and what is taken away
using PlainScheme = std::vector<PlainRow>;

matmul::SignedScheme read_signed(const PlainScheme& plain) {
    if (plain.empty() || plain.size() > matmul::MOST_ROWS) throw std::invalid_argument("a scheme has 1 to 4096 rows");
    matmul::SignedScheme scheme;
    for (const PlainRow& row : plain) {
        matmul::SignedRow made{};
        for (int axis = 0; axis < 3; ++axis) {
            made[axis] = {row[2 * axis], row[2 * axis + 1]};
            if (made[axis].is_nothing()) throw std::invalid_argument("a row has a factor that is nothing");
            if (made[axis].plus & made[axis].minus) throw std::invalid_argument("a coefficient is 1 and -1");
        }
        scheme.push_back(made);
    }
    return scheme;
}

PlainScheme write_signed(const matmul::SignedScheme& scheme) {
    PlainScheme plain;
    for (const matmul::SignedRow& row : scheme)
        plain.push_back({row[0].plus, row[0].minus, row[1].plus, row[1].minus, row[2].plus, row[2].minus});
    return plain;
}

std::int64_t go_ternary(TernaryWalk& walk, std::int64_t steps, std::int64_t plus_period, int margin, int target,
                        double temperature) {
    if (steps < 0 || plus_period < 1 || margin < 0 || !(temperature >= 0))
        throw std::invalid_argument("steps, plus_period, margin or temperature is wrong");
    nb::gil_scoped_release released;
    return walk.go(matmul::TernaryLimits{{steps, plus_period, margin, target}, temperature});
}

}  // namespace

NB_MODULE(flips, module) {
    nb::class_<Walk>(module, "Walk")
        .def("__init__",
             [](Walk* place, const Scheme& current, const Scheme& best, std::uint64_t dice, std::int64_t since_fall) {
                 new (place) Walk(matmul::checked(current), dice);
                 place->best = matmul::checked(best);
                 place->since_fall = since_fall;
             },
             nb::arg("current"), nb::arg("best"), nb::arg("dice"), nb::arg("since_fall"))
        .def("go", &go<Walk>, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"))
        .def_prop_ro("current", [](const Walk& walk) { return walk.current; })
        .def_prop_ro("best", [](const Walk& walk) { return walk.best; })
        .def_prop_ro("rank", [](const Walk& walk) { return walk.current.size(); })
        .def_prop_ro("best_rank", [](const Walk& walk) { return walk.best.size(); })
        .def_prop_ro("dice", [](const Walk& walk) { return walk.dice.state; })
        .def_prop_ro("since_fall", [](const Walk& walk) { return walk.since_fall; });
    nb::class_<TurningWalk>(module, "TurningWalk")
        .def("__init__",
             [](TurningWalk* place, const Scheme& current, const Scheme& best, std::uint64_t dice,
                std::int64_t since_fall) {
                 new (place) TurningWalk(matmul::checked(current), dice);
                 place->best = matmul::checked(best);
                 place->since_fall = since_fall;
             },
             nb::arg("current"), nb::arg("best"), nb::arg("dice"), nb::arg("since_fall"))
        .def("go", &go<TurningWalk>, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"))
        .def_prop_ro("current", [](const TurningWalk& walk) { return walk.current; })
        .def_prop_ro("best", [](const TurningWalk& walk) { return walk.best; })
        .def_prop_ro("best_rank", [](const TurningWalk& walk) { return matmul::turned_rank(walk.best); })
        .def_prop_ro("dice", [](const TurningWalk& walk) { return walk.dice.state; })
        .def_prop_ro("since_fall", [](const TurningWalk& walk) { return walk.since_fall; });
    module.def("reduced", &matmul::reduced, nb::arg("scheme"));
    nb::class_<TernaryWalk>(module, "TernaryWalk")
        .def("__init__",
             [](TernaryWalk* place, const PlainScheme& current, const PlainScheme& best, std::uint64_t dice,
                std::int64_t since_fall) {
                 new (place) TernaryWalk(read_signed(current), dice);
                 place->best = read_signed(best);
                 place->since_fall = since_fall;
             },
             nb::arg("current"), nb::arg("best"), nb::arg("dice"), nb::arg("since_fall"))
        .def("go", &go_ternary, nb::arg("steps"), nb::arg("plus_period"), nb::arg("margin"), nb::arg("target"),
             nb::arg("temperature"))
        .def_prop_ro("current", [](const TernaryWalk& walk) { return write_signed(walk.current); })
        .def_prop_ro("best", [](const TernaryWalk& walk) { return write_signed(walk.best); })
        .def_prop_ro("best_rank", [](const TernaryWalk& walk) { return walk.best.size(); })
        .def_prop_ro("weight", [](const TernaryWalk& walk) { return walk.weight(); })
        .def_prop_ro("dice", [](const TernaryWalk& walk) { return walk.dice.state; })
        .def_prop_ro("since_fall", [](const TernaryWalk& walk) { return walk.since_fall; });
}
