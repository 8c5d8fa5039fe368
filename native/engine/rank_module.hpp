// The part of palaestra.training.engines.learner that serves several ranks.
#pragma once

#include <nanobind/nanobind.h>

namespace engine {

void bind_ranks(nanobind::module_& module);

}  // namespace engine
