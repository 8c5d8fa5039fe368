// The caller's arrays through Python's buffer protocol: nothing is converted or copied, and what does not fit is named.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace arena {

enum class Kind { UINT8, INT32, INT64, FLOAT32, FLOAT64 };

class Buffer {
   public:
    using Shape = std::vector<Py_ssize_t>;

    // Raises TypeError for what is no array, ValueError for a wrong dtype, shape, order, or for a read-only one.
    Buffer(nanobind::handle array, const std::string& name, Kind kind, const Shape& shape, bool is_written);
    ~Buffer();
    Buffer(Buffer&& other) noexcept;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    template <typename T>
    T* as() const {
        return static_cast<T*>(view_.buf);
    }

   private:
    Py_buffer view_{};
};

}  // namespace arena
