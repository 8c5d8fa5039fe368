// Dynamics of Gymnasium's classic-control environments, operation by operation and in double precision, so that an
// environment can move between Python and C++ at any step. Compiled without fused multiply-add (see CMakeLists.txt).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "random.hpp"

namespace engine {

constexpr int MAX_STATE = 4;
constexpr int MAX_OBSERVATION = 6;

struct Action {
    std::int64_t discrete;
    const float* continuous;
};

struct StepResult {
    double reward;
    bool terminated;
};

// NumPy's `number**2` for a single number: the C library's pow, which is not always number * number.
double squared(double number);
float squared(float number);

// How an environment starts, steps and is observed. Stateless: the state is an argument.
class EnvDynamics {
   public:
    virtual ~EnvDynamics() = default;
    virtual int state_size() const = 0;
    virtual int observation_size() const = 0;
    virtual bool has_continuous_actions() const { return false; }
    virtual void reset(double* state, Pcg64& rng) const = 0;
    virtual StepResult step(double* state, const Action& action) const = 0;
    virtual void observe(const double* state, float* out) const = 0;
};

// The constants of an environment by their names in Gymnasium. Throws std::invalid_argument for a missing one.
class Constants {
   public:
    explicit Constants(const std::map<std::string, double>& values) : values_(values) {}
    double operator[](const char* name) const;

   private:
    const std::map<std::string, double>& values_;
};

// `name`: "acrobot", "cartpole", "mountain_car" or "pendulum".
std::unique_ptr<EnvDynamics> make_dynamics(const std::string& name, const std::map<std::string, double>& constants);

}  // namespace engine
