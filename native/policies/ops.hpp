// What the sources of palaestra.policies.native_ops share.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <thread>
#include <vector>

// Splits [0, count) over threads that live as long as the call.
template <typename Work>
void split(std::size_t count, int threads, const Work& work) {
    std::vector<std::thread> others;
    for (int k = 1; k < threads; ++k) others.emplace_back(work, count * k / threads, count * (k + 1) / threads);
    work(0, threads > 1 ? count / threads : count);
    for (std::thread& other : others) other.join();
}

void bind_tanh(nanobind::module_& module);
