#include "rules.hpp"

#include <stdexcept>

namespace engine {

double Constants::operator[](const char* name) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) throw std::invalid_argument(std::string("the constant '") + name + "' is missing");
    return found->second;
}

std::unique_ptr<Rules> rules_called(const std::string& name, const std::map<std::string, double>& constants) {
    if (name == "cartpole") return cartpole(Constants(constants));
    if (name == "pendulum") return pendulum(Constants(constants));
    throw std::invalid_argument("there are no rules called '" + name + "'");
}

}  // namespace engine
