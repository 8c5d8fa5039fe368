// What each file adds to the module.
#pragma once

#include <nanobind/nanobind.h>

void bind_code_sums(nanobind::module_& module);
void bind_tanh(nanobind::module_& module);
