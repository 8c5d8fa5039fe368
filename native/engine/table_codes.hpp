// The codes (bytes) that select rows of embedding tables: of the whole rollout, and of the current minibatch.
#pragma once

#include <cstdint>
#include <vector>

#include "../thread_pool.hpp"
#include "rollout_buffer.hpp"

namespace engine {

// A row of codes holds the cells of all tables. Every code is checked when it is copied here, so that no kernel can
// read beyond a table, even if the source arrays change later.
class TableCodes {
   public:
    TableCodes(const Network& network, const RolloutBuffer& buffer);

    bool is_empty() const { return width_ == 0; }
    // Copies row `row` of the rollout. Throws std::out_of_range for a code that its table does not have.
    void read(std::size_t row) { copy(buffer_.codes, row, codes_.data() + row * width_); }
    // Row `row` of other arrays, one for each table.
    std::vector<std::uint8_t> read_final(const std::vector<const std::uint8_t*>& arrays, std::size_t row) const;
    const std::uint8_t* row(std::size_t row) const { return codes_.data() + row * width_; }

    // Before a minibatch of `rows`; then threads may work on different rows of it.
    void reserve(std::size_t rows);
    // Copies the codes of `samples` to the rows of the minibatch from `first` on.
    const std::uint8_t* gather(const std::vector<std::size_t>& samples, int rows, std::size_t first);
    // Keeps the grads by the tables' targets after a backward pass over those rows.
    void store_gradients(const float* grads, int rows, std::size_t first);
    // Writes the gradient of all tables over the whole minibatch, in the order of the parameters.
    void write_gradients(int rows, palaestra::ThreadPool& pool, float* flat) const;

   private:
    void copy(const std::vector<const std::uint8_t*>& arrays, std::size_t row, std::uint8_t* to) const;
    void write_cell_gradients(int rows, int first, int last, float* flat) const;
    int first_table_of_target(int table) const;

    const Network& network_;
    const RolloutBuffer& buffer_;
    const std::size_t width_;                // of a row
    std::vector<std::uint8_t> codes_;        // [T + 1, B, width]
    std::vector<std::uint8_t> batch_codes_;  // [minibatch, width]
    std::vector<FloatArray>
        gradients_;             // of each table that is the first of its target: [minibatch, stride] by the target
    std::size_t capacity_ = 0;  // rows of a minibatch that fit
};

}  // namespace engine
