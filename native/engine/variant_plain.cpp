#define PALAESTRA_WIDTH 4
#define PALAESTRA_VARIANT kernels_plain
#define PALAESTRA_VARIANT_NAME "plain"
#include "kernels_body.hpp"
