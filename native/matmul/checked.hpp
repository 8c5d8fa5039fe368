// What Python hands over is looked at once, at the door.
#pragma once

#include <stdexcept>

#include "walk.hpp"

namespace matmul {

constexpr std::size_t MOST_ROWS = 4096;  // pairs hold rows as 16 bits

inline const Scheme& checked(const Scheme& scheme) {
    if (scheme.empty() || scheme.size() > MOST_ROWS) throw std::invalid_argument("a scheme has 1 to 4096 rows");
    for (const Row& row : scheme)
        if (row[0] == 0 || row[1] == 0 || row[2] == 0) throw std::invalid_argument("a row has a factor that is nothing");
    return scheme;
}

}  // namespace matmul
