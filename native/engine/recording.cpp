#include "recording.hpp"

#include <algorithm>
#include <cmath>
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

double explained_variance(const Recording& recording) {
    const std::size_t samples = recording.samples();
    double sum = 0, squares = 0, left = 0, left_squares = 0;
    for (std::size_t k = 0; k < samples; ++k) {
        sum += recording.returns[k];
        left += static_cast<double>(recording.returns[k]) - recording.values[k];
    }
    const double mean = sum / samples, left_mean = left / samples;
    for (std::size_t k = 0; k < samples; ++k) {
        const double away = recording.returns[k] - mean;
        const double left_away = static_cast<double>(recording.returns[k]) - recording.values[k] - left_mean;
        squares += away * away;
        left_squares += left_away * left_away;
    }
    return squares == 0 ? std::nan("") : 1 - left_squares / squares;
}

}  // namespace engine
