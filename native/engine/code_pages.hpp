// The bytes that choose rows of a network's tables: of the whole recording, and of the minibatch that is learned from.
#pragma once

#include <cstdint>
#include <vector>

#include "../arena/crew.hpp"
#include "floats.hpp"
#include "network.hpp"
#include "recording.hpp"

namespace engine {

// A row of codes has the cells of all tables side by side. Every byte was looked at when it was copied here, so that no
// kernel can be led beyond a table, whatever happens to the arrays that it came from.
class CodePages {
   public:
    CodePages(const Network& network, const Recording& recording);

    bool is_empty() const { return width_ == 0; }
    // Row `row` of the recording. Throws out_of_range for a code that its table does not have.
    void read(std::size_t row) { copy(recording_.codes, row, pages_.data() + row * width_); }
    // Row `row` of arrays like the recording's, one for each table.
    std::vector<std::uint8_t> read_other(const std::vector<const std::uint8_t*>& arrays, std::size_t row) const;
    const std::uint8_t* row(std::size_t row) const { return pages_.data() + row * width_; }

    // Before a minibatch; after that threads may work on different rows of it.
    void make_room(std::size_t rows);
    // The codes of `samples` as rows of the minibatch from `first` on.
    const std::uint8_t* gather(const std::vector<std::size_t>& samples, int rows, std::size_t first);
    // `slopes` is a block's, after a backward pass over those rows.
    void keep(const float* slopes, int rows, std::size_t first);
    // Of the whole minibatch, in the parameters' order.
    void give_slopes(int rows, arena::Crew& crew, float* flat) const;

   private:
    void copy(const std::vector<const std::uint8_t*>& arrays, std::size_t row, std::uint8_t* to) const;
    void give_share(int rows, int first, int last, float* flat) const;
    int first_of_target(int table) const;

    const Network& network_;
    const Recording& recording_;
    const std::size_t width_;             // of a row
    std::vector<std::uint8_t> pages_;     // [T + 1, B, width]
    std::vector<std::uint8_t> gathered_;  // [minibatch, width]
    std::vector<Floats> slopes_;          // of each table that is the first of its target: [minibatch, stride]
    std::size_t room_ = 0;                // rows of a minibatch that there is room for
};

}  // namespace engine
