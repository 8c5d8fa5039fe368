// NumPy arrays through Python's buffer protocol: nothing is converted or copied, and mismatches are errors with names.
#pragma once

#include <nanobind/nanobind.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace arena {

enum class Dtype { UINT8, INT32, INT64, FLOAT32, FLOAT64 };

class Buffer {
   public:
    using Shape = std::vector<Py_ssize_t>;

    // Raises TypeError for anything but an array, ValueError for a wrong dtype, shape or order, or a read-only array.
    Buffer(nanobind::handle array, const std::string& name, Dtype dtype, const Shape& shape, bool is_output);
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

struct DtypeInfo {
    const char* name;
    const char* formats;  // format characters of Python's struct module; the one used depends on the platform
    Py_ssize_t size;
};

inline DtypeInfo info_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::UINT8: return {"uint8", "B", 1};
        case Dtype::INT32: return {"int32", "il", 4};
        case Dtype::INT64: return {"int64", "lq", 8};
        case Dtype::FLOAT32: return {"float32", "f", 4};
        case Dtype::FLOAT64: return {"float64", "d", 8};
    }
    return {"", "", 0};
}

inline std::string shape_text(const Py_ssize_t* sizes, std::size_t count) {
    std::string text = "(";
    for (std::size_t axis = 0; axis < count; ++axis) text += (axis ? ", " : "") + std::to_string(sizes[axis]);
    return text + ")";
}

inline bool has_format(const Py_buffer& view, const DtypeInfo& info) {
    const char* format = view.format ? view.format : "B";
    return format[0] != '\0' && format[1] == '\0' && std::strchr(info.formats, format[0]) && view.itemsize == info.size;
}

inline bool has_shape(const Py_buffer& view, const Buffer::Shape& shape) {
    if (view.ndim != static_cast<int>(shape.size())) return false;
    for (int axis = 0; axis < view.ndim; ++axis) {
        if (view.shape[axis] != shape[axis]) return false;
    }
    return true;
}

inline Buffer::Buffer(nanobind::handle array, const std::string& name, Dtype dtype, const Shape& shape,
                      bool is_output) {
    const DtypeInfo info = info_of(dtype);
    const std::string wanted = name + " must be " + info.name + " of shape " + shape_text(shape.data(), shape.size());
    if (!PyObject_CheckBuffer(array.ptr())) {
        throw nanobind::type_error((wanted + ", not " + nanobind::type_name(array.type()).c_str()).c_str());
    }
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw nanobind::python_error();
    std::string problem;
    if (!has_format(view_, info))
        problem = std::string("its items are of format ") + (view_.format ? view_.format : "?");
    else if (!has_shape(view_, shape))
        problem = "it is of shape " + shape_text(view_.shape, view_.ndim);
    else if (!PyBuffer_IsContiguous(&view_, 'C'))
        problem = "it is not C-contiguous";
    else if (is_output && view_.readonly)
        problem = "it cannot be written to";
    if (problem.empty()) return;
    const std::string message = wanted + "; " + problem;
    PyBuffer_Release(&view_);
    throw nanobind::value_error(message.c_str());
}

inline Buffer::~Buffer() {
    if (view_.obj) PyBuffer_Release(&view_);
}

inline Buffer::Buffer(Buffer&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {
    // The shape of a one-dimensional view may point into the view itself; it is not used after the constructor.
}

}  // namespace arena
