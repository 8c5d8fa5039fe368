#define PALAESTRA_WIDTH 16
#define PALAESTRA_VARIANT kernels_v4
#define PALAESTRA_VARIANT_NAME "x86-64-v4"
#include "kernels_body.hpp"
