#define PALAESTRA_WIDTH 8
#define PALAESTRA_VARIANT kernels_v3
#define PALAESTRA_VARIANT_NAME "x86-64-v3"
#include "kernels_body.hpp"
