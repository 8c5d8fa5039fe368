// Reads the described plans that Python passes (training/engines/network_plan.py). Field names and enum values are the
// same on both sides.
#pragma once

#include <nanobind/nanobind.h>

#include "network.hpp"
#include "rollout_buffer.hpp"

namespace engine {

// All throw ValueError or TypeError naming the class and the field. Network checks how the plan's parts fit together.
NetworkPlan read_network_plan(nanobind::handle plan);
HeadPlan read_head_plan(nanobind::handle plan, std::size_t log_std_offset, std::size_t parameter_count);
std::size_t read_log_std_offset(nanobind::handle network_plan);
ObservationReader read_input_plan(nanobind::handle plan);

}  // namespace engine
