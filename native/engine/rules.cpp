#include "rules.hpp"

#include <cmath>
#include <stdexcept>

namespace engine {

namespace {

volatile double two = 2.0;  // so that no compiler makes a product of it

}  // namespace

double squared(double number) { return std::pow(number, two); }
float squared(float number) { return std::pow(number, static_cast<float>(two)); }

double Constants::operator[](const char* name) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) throw std::invalid_argument(std::string("the constant '") + name + "' is missing");
    return found->second;
}

std::unique_ptr<Rules> rules_called(const std::string& name, const std::map<std::string, double>& constants) {
    if (name == "acrobot") return acrobot(Constants(constants));
    if (name == "cartpole") return cartpole(Constants(constants));
    if (name == "mountain_car") return mountain_car(Constants(constants));
    if (name == "pendulum") return pendulum(Constants(constants));
    throw std::invalid_argument("there are no rules called '" + name + "'");
}

}  // namespace engine
