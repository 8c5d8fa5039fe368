// Validates schemes that come from Python.
#pragma once

#include <stdexcept>

#include "binary_walk.hpp"

namespace matmul {

constexpr std::size_t MAX_ROWS = 4096;  // a pair holds rows as 16 bits

inline const Scheme& validated(const Scheme& scheme) {
    if (scheme.empty() || scheme.size() > MAX_ROWS) throw std::invalid_argument("a scheme has 1 to 4096 rows");
    for (const Row& row : scheme)
        if (row[0] == 0 || row[1] == 0 || row[2] == 0) throw std::invalid_argument("a row has a factor of zeros");
    return scheme;
}

}  // namespace matmul
