#include "buffers.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace nb = nanobind;

namespace arena {

namespace {

struct Word {
    const char* name;
    const char* formats;  // letters of Python's struct that mean it; which one, depends on the platform
    Py_ssize_t size;
};

Word word_of(Kind kind) {
    switch (kind) {
        case Kind::UINT8: return {"uint8", "B", 1};
        case Kind::INT32: return {"int32", "il", 4};
        case Kind::INT64: return {"int64", "lq", 8};
        case Kind::FLOAT32: return {"float32", "f", 4};
        case Kind::FLOAT64: return {"float64", "d", 8};
    }
    return {"", "", 0};
}

std::string written_out(const Py_ssize_t* sizes, std::size_t count) {
    std::string text = "(";
    for (std::size_t axis = 0; axis < count; ++axis) text += (axis ? ", " : "") + std::to_string(sizes[axis]);
    return text + ")";
}

bool has_format(const Py_buffer& view, const Word& word) {
    const char* format = view.format ? view.format : "B";
    return format[0] != '\0' && format[1] == '\0' && std::strchr(word.formats, format[0]) &&
           view.itemsize == word.size;
}

bool has_shape(const Py_buffer& view, const Buffer::Shape& shape) {
    if (view.ndim != static_cast<int>(shape.size())) return false;
    for (int axis = 0; axis < view.ndim; ++axis) {
        if (view.shape[axis] != shape[axis]) return false;
    }
    return true;
}

}  // namespace

Buffer::Buffer(nb::handle array, const std::string& name, Kind kind, const Shape& shape, bool is_written) {
    const Word word = word_of(kind);
    const std::string wanted = name + " must be " + word.name + " of shape " + written_out(shape.data(), shape.size());
    if (!PyObject_CheckBuffer(array.ptr())) {
        throw nb::type_error((wanted + ", not " + nb::type_name(array.type()).c_str()).c_str());
    }
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw nb::python_error();
    std::string problem;
    if (!has_format(view_, word)) problem = std::string("its items are of format ") + (view_.format ? view_.format : "?");
    else if (!has_shape(view_, shape)) problem = "it is of shape " + written_out(view_.shape, view_.ndim);
    else if (!PyBuffer_IsContiguous(&view_, 'C')) problem = "its rows are not one after the other in memory";
    else if (is_written && view_.readonly) problem = "it cannot be written to";
    if (problem.empty()) return;
    const std::string message = wanted + "; " + problem;
    PyBuffer_Release(&view_);
    throw nb::value_error(message.c_str());
}

Buffer::~Buffer() {
    if (view_.obj) PyBuffer_Release(&view_);
}

Buffer::Buffer(Buffer&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {
    // A one-dimensional view may point into itself for its shape; nobody asks for it after the constructor.
}

}  // namespace arena
