// What Python tells of a network in numbers, as what the engine is made of. src/palaestra/training/engines/codes.py has
// the same words.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "heads.hpp"
#include "plan.hpp"
#include "recording.hpp"

namespace engine {

// source, target, inputs, outputs, weight, row of weights, bias (or -1), activation
using LayerTuple = std::tuple<int, int, int, int, std::size_t, std::size_t, std::int64_t, int>;
// target, cells, most, clips, size, place, bias, activation
using TableTuple = std::tuple<int, int, int, bool, int, std::size_t, std::int64_t, int>;
using CellTuple = std::tuple<int, int, int, int, std::size_t, std::size_t>;  // kind, gates, target, size, weight, bias

// Tables come first: they read nothing that a layer writes.
std::vector<Layer> layers_of(const std::vector<TableTuple>& tables, const std::vector<LayerTuple>& tuples);
std::vector<Table> tables_of(const std::vector<TableTuple>& tuples);
std::vector<Cell> cells_of(const std::vector<CellTuple>& tuples);
HeadPlan head_of(int kind, const std::vector<int>& counts, std::size_t log_std, std::size_t parameter_count);
Reader reader_of(int kind, const std::vector<int>& counts, const std::vector<int>& firsts, int size);

}  // namespace engine
