#include "kernel_table.hpp"

namespace engine {

extern const Kernels kernels_v4;
const Kernels kernels_v4 = make_kernel_table("x86-64-v4");

}  // namespace engine
