// A learner as Python holds it, and the arrays that it is given.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "learner.hpp"
#include "told.hpp"

namespace engine {

template <typename T>
using Array = nanobind::ndarray<T, nanobind::c_contig, nanobind::device::cpu>;

template <typename A>
void demand(const A& array, std::size_t count, const char* name) {
    if (array.size() != count) {
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.size()) + " entries, not " +
                                    std::to_string(count));
    }
}

struct HeldLearner {
    std::unique_ptr<Learner> learner;
    std::vector<nanobind::object> arrays;  // that it writes to, which must live as long
    std::size_t cut_size = 0;
    std::vector<std::size_t> code_sizes;  // of each table

    template <typename T>
    T* hold(nanobind::handle array, std::size_t count, const char* name) {
        auto cast = nanobind::cast<Array<T>>(array, false);
        demand(cast, count, name);
        arrays.push_back(nanobind::borrow(array));
        return cast.data();
    }

    void hold_codes(const Plan& plan, const nanobind::dict& recording, std::size_t rows, Recording& tape);

    HeldLearner(const std::vector<int>& sizes, const std::vector<LayerTuple>& layers, int action_slot, int value_slot,
                int head, const std::vector<int>& counts, std::size_t log_std, int input,
                const std::vector<int>& input_counts, const std::vector<int>& input_firsts,
                nanobind::dict parameters, nanobind::dict recording,
                nanobind::object normalizer, int horizon, int env_count, int threads, const std::string& kernels,
                const std::vector<CellTuple>& cells, int stretch, const std::vector<TableTuple>& tables);
};

}  // namespace engine
