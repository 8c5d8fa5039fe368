// A zeroed, page-aligned array of floats. Arrays never share a page: hardware prefetchers read ahead to its end, and
// would take cache lines that another core writes.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace engine {

constexpr std::size_t PAGE = 4096;  // bytes

class FloatArray {
   public:
    FloatArray() = default;
    explicit FloatArray(std::size_t count) {
        const std::size_t bytes = (count * sizeof(float) + 64 + PAGE - 1) / PAGE * PAGE;
        block_.reset(static_cast<float*>(std::aligned_alloc(PAGE, bytes)));
        if (!block_) throw std::bad_alloc();
        std::memset(block_.get(), 0, bytes);
    }
    float* data() { return block_.get(); }
    const float* data() const { return block_.get(); }

   private:
    struct Free {
        void operator()(float* block) const { std::free(block); }
    };
    std::unique_ptr<float[], Free> block_;
};

}  // namespace engine
