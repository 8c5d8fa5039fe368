// Zeros on a cache line of their own.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace engine {

class Floats {
   public:
    Floats() = default;
    explicit Floats(std::size_t count) {
        const std::size_t bytes = (count * sizeof(float) + 63) / 64 * 64 + 64;
        block_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
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
