#include "parts.hpp"

NB_MODULE(kernels, module) {
    module.doc() = "Loops that torch has no kernel for, or a slow one.";
    bind_code_sums(module);
    bind_tanh(module);
}
