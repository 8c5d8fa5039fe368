// A batch of Arena's behind the door that any engine can step worlds through.
#pragma once

#include <vector>

#include "../batch_door.h"
#include "batch.hpp"

namespace arena {

// Lives no longer than the batch.
class Doorway : public palaestra_batch_door {
   public:
    explicit Doorway(Batch& worlds);
    Doorway(const Doorway&) = delete;
    Doorway& operator=(const Doorway&) = delete;

   private:
    std::vector<palaestra_batch_part> seen_;
};

}  // namespace arena
