// Work on 0 … count, shared among threads that live as long as the call.
#pragma once

#include <cstddef>
#include <thread>
#include <vector>

template <typename Work>
void split(std::size_t count, int threads, const Work& work) {
    std::vector<std::thread> others;
    for (int k = 1; k < threads; ++k) others.emplace_back(work, count * k / threads, count * (k + 1) / threads);
    work(0, threads > 1 ? count / threads : count);
    for (std::thread& other : others) other.join();
}
