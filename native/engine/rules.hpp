// Environments inside the engine: how one begins, goes on and is seen. Rules have no state; a world's is handed in.
//
// They are Gymnasium's, operation by operation and in double precision, so that a world can go from here to there and
// back at any step. This file's sources are compiled without fused arithmetic (see CMakeLists.txt).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "pcg64.hpp"

namespace engine {

constexpr int MAX_STATE = 4;
constexpr int MAX_OBSERVATION = 6;

struct Action {
    std::int64_t choice;
    const float* numbers;
};

struct Outcome {
    double reward;
    bool terminated;
};

// NumPy's `number**2` for a single number: the C library's pow, which is not always number * number.
double squared(double number);
float squared(float number);

class Rules {
   public:
    virtual ~Rules() = default;
    virtual int state_size() const = 0;
    virtual int observation_size() const = 0;
    virtual bool takes_numbers() const { return false; }  // else choices
    virtual void begin(double* state, Pcg64& dice) const = 0;
    virtual Outcome step(double* state, const Action& action) const = 0;
    virtual void observe(const double* state, float* out) const = 0;
};

// The constants of an environment by their names in Gymnasium; one that is missing is named in the exception.
class Constants {
   public:
    explicit Constants(const std::map<std::string, double>& numbers) : numbers_(numbers) {}
    double operator[](const char* name) const;

   private:
    const std::map<std::string, double>& numbers_;
};

std::unique_ptr<Rules> acrobot(const Constants& constants);
std::unique_ptr<Rules> cartpole(const Constants& constants);
std::unique_ptr<Rules> mountain_car(const Constants& constants);
std::unique_ptr<Rules> pendulum(const Constants& constants);
std::unique_ptr<Rules> rules_called(const std::string& name, const std::map<std::string, double>& constants);

}  // namespace engine
