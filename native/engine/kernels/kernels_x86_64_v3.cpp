#include "kernel_table.hpp"

namespace engine {

extern const Kernels kernels_v3;
const Kernels kernels_v3 = make_kernel_table("x86-64-v3");

}  // namespace engine
