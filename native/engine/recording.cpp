#include "recording.hpp"

#include <algorithm>
#include <cstring>

namespace engine {

bool Reader::read(const void* observations, std::size_t row, float* out) const {
    const std::size_t at = row * parts();
    switch (kind) {
        case Input::REALS: {
            const float* numbers = static_cast<const float*>(observations) + at;
            if (!shift) {
                std::memcpy(out, numbers, size * sizeof(float));
                return true;
            }
            for (int k = 0; k < size; ++k) {
                out[k] = std::min(std::max((numbers[k] - shift[k]) * scale[k], -limit), limit);
            }
            return true;
        }
        case Input::BYTES: {
            const std::uint8_t* bytes = static_cast<const std::uint8_t*>(observations) + at;
            for (int k = 0; k < size; ++k) out[k] = static_cast<float>(bytes[k]) / 255.0f;
            return true;
        }
        case Input::CHOICES: {
            const std::int64_t* choices = static_cast<const std::int64_t*>(observations) + at;
            std::memset(out, 0, size * sizeof(float));
            for (std::size_t part = 0, first = 0; part < counts.size(); first += counts[part++]) {
                const std::int64_t choice = choices[part] - firsts[part];
                if (choice < 0 || choice >= counts[part]) return false;
                out[first + choice] = 1.0f;
            }
            return true;
        }
    }
    return false;
}

}  // namespace engine
