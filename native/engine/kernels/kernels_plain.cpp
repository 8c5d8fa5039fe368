#include "kernel_table.hpp"

namespace engine {

extern const Kernels kernels_plain;
const Kernels kernels_plain = make_kernel_table("plain");

}  // namespace engine
