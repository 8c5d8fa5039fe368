#include <nanobind/stl/string.h>

#include <system_error>

#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace engine {

namespace {

// Sums with a Python function `sum(array) -> None`, which writes the result into the array.
class CallbackReducer : public Reducer {
   public:
    CallbackReducer(nb::callable function, int world_size) : function_(std::move(function)), world_size_(world_size) {}
    int world_size() const override { return world_size_; }
    void sum(float* values, std::size_t count) override { call(values, count); }
    void sum(double* values, std::size_t count) override { call(values, count); }
    void average(float* values, std::size_t count) override {
        call(values, count);
        const float factor = 1.0f / static_cast<float>(world_size_);
        for (std::size_t k = 0; k < count; ++k) values[k] *= factor;
    }

   private:
    template <typename T>
    void call(T* values, std::size_t count) const {
        const nb::gil_scoped_acquire with_gil;
        nb::ndarray<nb::numpy, T, nb::ndim<1>> array(values, {count}, nb::handle());
        function_(nb::cast(array, nb::rv_policy::reference));
    }

    const nb::callable function_;
    const int world_size_;
};

// Python handles signals in its main thread; in other threads this does nothing.
void check_signals() {
    const nb::gil_scoped_acquire with_gil;
    if (PyErr_CheckSignals()) throw nb::python_error();
}

void make_collectives(SharedMemoryCollectives* place, int descriptor, int rank, int world_size,
                      double timeout_seconds) {
    try {
        new (place) SharedMemoryCollectives(descriptor, rank, world_size, timeout_seconds, check_signals);
    } catch (const std::system_error& error) {
        errno = error.code().value();
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
}

nb::list gather(SharedMemoryCollectives& collectives, const nb::bytes& data, bool is_wanted) {
    std::vector<std::string> parts;
    {
        const nb::gil_scoped_release without_gil;
        parts = collectives.gather(data.c_str(), data.size(), is_wanted);
    }
    nb::list list;
    for (const std::string& part : parts) list.append(nb::bytes(part.data(), part.size()));
    return list;
}

template <typename T>
void sum(Reducer& reducer, Array<T> values) {
    const nb::gil_scoped_release without_gil;
    reducer.sum(values.data(), values.size());
}

void raise_peer_lost(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const PeerLostError& error) {
        const nb::object type = nb::module_::import_("palaestra.algorithms.group").attr("PeerLost");
        PyErr_SetString(type.ptr(), error.what());
    }
}

}  // namespace

void bind_collectives(nb::module_& module) {
    nb::register_exception_translator(raise_peer_lost);
    nb::class_<Reducer>(module, "Reducer")
        .def("sum", &sum<float>, "values"_a.noconvert())
        .def("sum", &sum<double>, "values"_a.noconvert());
    nb::class_<CallbackReducer, Reducer>(module, "CallbackReducer")
        .def(nb::init<nb::callable, int>(), "function"_a, "world_size"_a);
    nb::class_<SharedMemoryCollectives, Reducer>(module, "SharedMemoryCollectives")
        .def("__init__", &make_collectives, "descriptor"_a, "rank"_a, "world_size"_a, "timeout_seconds"_a)
        .def("gather", &gather, "data"_a, "is_wanted"_a)
        .def("barrier", &SharedMemoryCollectives::barrier, nb::call_guard<nb::gil_scoped_release>())
        .def("post_failure", &SharedMemoryCollectives::post_failure, "message"_a)
        .def_prop_ro("waited_seconds", &SharedMemoryCollectives::waited_seconds);
}

}  // namespace engine
