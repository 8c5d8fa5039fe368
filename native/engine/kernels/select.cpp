#include <cstring>

#include "../kernels.hpp"

namespace engine {

extern const Kernels kernels_plain;
#if defined(PALAESTRA_HAS_CLONES)
extern const Kernels kernels_v3, kernels_v4;
#endif

namespace {

bool can_run(const Kernels& kernels) {
#if defined(PALAESTRA_HAS_CLONES)
    if (&kernels == &kernels_v4) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma");
    }
    if (&kernels == &kernels_v3) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    }
#endif
    return &kernels == &kernels_plain;
}

}  // namespace

const Kernels* find_kernels(const char* name) {
#if defined(PALAESTRA_HAS_CLONES)
    const Kernels* known[] = {&kernels_v4, &kernels_v3, &kernels_plain};
#else
    const Kernels* known[] = {&kernels_plain};
#endif
    for (const Kernels* kernels : known) {
        if ((!*name || !std::strcmp(name, kernels->name)) && can_run(*kernels)) return kernels;
    }
    return nullptr;
}

}  // namespace engine
