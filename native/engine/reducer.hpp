// Sums over all ranks that train together, as an update needs them between two minibatches.
#pragma once

#include <cstddef>

namespace engine {

// Every rank makes the same calls in the same order. What they write is the same on all ranks, to the last bit.
class Reducer {
   public:
    virtual ~Reducer() = default;
    virtual int world_size() const = 0;
    // In place: the sum over all ranks. Throws when another rank is lost.
    virtual void sum(float* values, std::size_t count) = 0;
    virtual void sum(double* values, std::size_t count) = 0;
    // In place: the mean over all ranks.
    virtual void average(float* values, std::size_t count) = 0;
};

}  // namespace engine
