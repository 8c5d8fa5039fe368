// The part of palaestra.training.engines.learner that takes other modules' worlds.
#pragma once

#include <nanobind/nanobind.h>

namespace engine {

void bind_batch(nanobind::module_& module);

}  // namespace engine
