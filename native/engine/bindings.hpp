// What the bindings of palaestra.training.engines.native_learner share. Names and signatures are documented in
// native_learner.pyi.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "learner.hpp"

namespace engine {

template <typename T>
using Array = nanobind::ndarray<T, nanobind::c_contig, nanobind::device::cpu>;

template <typename A>
void check_size(const A& array, std::size_t count, const char* name) {
    if (array.size() != count) {
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.size()) + " entries, not " +
                                    std::to_string(count));
    }
}

// Python arrays that an object reads and writes.
struct KeptArrays {
    std::vector<nanobind::object> arrays;  // kept alive

    // The array's data; the array is kept alive.
    template <typename T>
    T* keep(nanobind::handle array, std::size_t count, const char* name) {
        auto cast = nanobind::cast<Array<T>>(array, false);
        check_size(cast, count, name);
        arrays.push_back(nanobind::borrow(array));
        return cast.data();
    }
};

struct PyLearner : KeptArrays {
    std::unique_ptr<Learner> learner;
    std::size_t observation_items = 0;    // of one environment
    std::vector<std::size_t> code_items;  // of each table
};

Parameters read_parameters(KeptArrays& owner, const nanobind::dict& arrays);
void read_normalizer(KeptArrays& owner, nanobind::handle normalizer, ObservationReader& reader);

void bind_collectives(nanobind::module_& module);
void bind_envs(nanobind::module_& module);
void bind_network(nanobind::module_& module);
void bind_off_policy(nanobind::module_& module);

}  // namespace engine
