// Memory, for kernels_body.hpp: what happens from one step to the next, forwards and backwards in time.

// Exact where it is small, too: gates that are nearly shut are what a long memory is made of.
INLINE Vector sigmoid_of(Vector x) { return 1.0f / (1.0f + exp_of(-x)); }

// Step by step and row by row: where the parts of a cell lie.
struct CellRow {
    float *gates, *across, *hidden, *inner, *bent, *target;
};

INLINE CellRow row_of(const Plan& plan, const Cell& cell, float* values, std::size_t row) {
    const auto at = [&](int slot) { return values + plan.places[slot] + row * plan.strides[slot]; };
    const bool is_lstm = cell.kind == CellKind::LSTM;
    return {at(cell.gates),
            cell.kind == CellKind::MINGRU ? nullptr : at(cell.across.target),
            at(cell.hidden),
            is_lstm ? at(cell.inner) : nullptr,
            is_lstm ? at(cell.bent) : nullptr,
            at(cell.target)};
}

// Beyond `size` all of these give zero, because every part of a row is zero there.
INLINE void remember_mingru(int size, const CellRow& row, float* state) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        const Vector share = sigmoid_of(load_some(row.gates + k, left));
        const Vector after = share * load_some(row.gates + size + k, left) + (1.0f - share) * load(row.hidden + k);
        store_some(row.gates + k, share, left);
        store(row.target + k, after);
        store(state + k, after);
    }
}

INLINE void remember_lstm(int size, int stride, const CellRow& row, float* state) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        float* gates = row.gates + k;
        const Vector enter = sigmoid_of(load_some(gates, left)), stay = sigmoid_of(load_some(gates + size, left));
        const Vector fresh = tanh_of(load_some(gates + 2 * size, left));
        const Vector leave = sigmoid_of(load_some(gates + 3 * size, left));
        const Vector inner = stay * load(row.inner + k) + enter * fresh;
        const Vector bent = tanh_of(inner), after = leave * bent;
        store_some(gates, enter, left);
        store_some(gates + size, stay, left);
        store_some(gates + 2 * size, fresh, left);
        store_some(gates + 3 * size, leave, left);
        store(row.bent + k, bent);
        store(row.target + k, after);
        store(state + k, after);
        store(state + stride + k, inner);
    }
}

INLINE void remember_gru(int size, const CellRow& row, float* state) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        float* gates = row.gates + k;
        const float* across = row.across + k;
        const Vector reset = sigmoid_of(load_some(gates, left) + load_some(across, left));
        const Vector stay = sigmoid_of(load_some(gates + size, left) + load_some(across + size, left));
        const Vector fresh = tanh_of(load_some(gates + 2 * size, left) + reset * load_some(across + 2 * size, left));
        const Vector after = fresh + stay * (load(row.hidden + k) - fresh);
        store_some(gates, reset, left);
        store_some(gates + size, stay, left);
        store_some(gates + 2 * size, fresh, left);
        store(row.target + k, after);
        store(state + k, after);
    }
}

// What each row of a step starts from: the state so far, or nothing.
void enter_step(const Plan& plan, const Cell& cell, const Block& block, int step) {
    const std::size_t stride = plan.strides[cell.hidden], bytes = stride * sizeof(float);
    const bool is_lstm = cell.kind == CellKind::LSTM;
    for (int column = 0; column < block.columns; ++column) {
        const std::size_t row = static_cast<std::size_t>(step) * block.columns + column;
        float* state = block.states + column * plan.state_size + cell.state;
        if (block.starts[row]) std::memset(state, 0, is_lstm ? 2 * bytes : bytes);
        std::memcpy(block.values + plan.places[cell.hidden] + row * stride, state, bytes);
        if (is_lstm) std::memcpy(block.values + plan.places[cell.inner] + row * stride, state + stride, bytes);
    }
}

void forward_cell(const Plan& plan, const Cell& cell, const float* packed, const Block& block) {
    const int stride = plan.strides[cell.hidden];
    const Layer& across = cell.across;
    for (int step = 0; step < block.steps; ++step) {
        const std::size_t first = static_cast<std::size_t>(step) * block.columns;
        enter_step(plan, cell, block, step);
        if (cell.kind != CellKind::MINGRU) {
            const std::size_t out_stride = plan.strides[across.target];
            const float* turned = packed + across.packed;
            const Operands at = {block.values + plan.places[cell.hidden] + first * stride,
                                 static_cast<std::size_t>(stride),
                                 1,
                                 turned,
                                 out_stride,
                                 block.values + plan.places[across.target] + first * out_stride,
                                 out_stride,
                                 packed + across.packed_bias,
                                 nullptr,
                                 nullptr};
            if (cell.kind == CellKind::LSTM) {
                product<Start::ADD>(block.columns, static_cast<int>(out_stride), across.inputs, at);
            } else {
                product<Start::BIAS>(block.columns, static_cast<int>(out_stride), across.inputs, at);
            }
        }
        for (int column = 0; column < block.columns; ++column) {
            const CellRow row = row_of(plan, cell, block.values, first + column);
            float* state = block.states + column * plan.state_size + cell.state;
            switch (cell.kind) {
                case CellKind::MINGRU: remember_mingru(cell.size, row, state); break;
                case CellKind::LSTM: remember_lstm(cell.size, stride, row, state); break;
                case CellKind::GRU: remember_gru(cell.size, row, state); break;
            }
        }
    }
}

// From the slope of the hidden state after a step to those of the gates and of the state before it. `later` points to
// the slopes of the next step's row, or is null where nothing goes on to it.
INLINE void recall_mingru(int size, const CellRow& row, const CellRow& slope, const CellRow* later) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        const Vector share = load_some(row.gates + k, left), keep = 1.0f - share;
        const Vector away = load_some(row.gates + size + k, left) - load(row.hidden + k);
        Vector after = load(slope.target + k);
        if (later) after += load(later->hidden + k);
        store_some(slope.gates + k, after * away * (share * keep), left);
        store_some(slope.gates + size + k, after * share, left);
        store(slope.hidden + k, after * keep);
    }
}

INLINE void recall_lstm(int size, const CellRow& row, const CellRow& slope, const CellRow* later) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        const float* gates = row.gates + k;
        float* slopes = slope.gates + k;
        const Vector enter = load_some(gates, left), stay = load_some(gates + size, left);
        const Vector fresh = load_some(gates + 2 * size, left), leave = load_some(gates + 3 * size, left);
        const Vector bent = load(row.bent + k), before = load(row.inner + k);
        Vector after = load(slope.target + k);
        if (later) after += load(later->hidden + k);
        Vector inner = after * leave * (1.0f - bent * bent);
        if (later) inner += load(later->inner + k);
        store_some(slopes, inner * fresh * (enter * (1.0f - enter)), left);
        store_some(slopes + size, inner * before * (stay * (1.0f - stay)), left);
        store_some(slopes + 2 * size, inner * enter * (1.0f - fresh * fresh), left);
        store_some(slopes + 3 * size, after * bent * (leave * (1.0f - leave)), left);
        store(slope.inner + k, inner * stay);
    }
}

INLINE void recall_gru(int size, const CellRow& row, const CellRow& slope, const CellRow* later) {
    for (int k = 0; k < size; k += WIDTH) {
        const int left = size - k;
        const float* gates = row.gates + k;
        const Vector reset = load_some(gates, left), stay = load_some(gates + size, left);
        const Vector fresh = load_some(gates + 2 * size, left), across = load_some(row.across + 2 * size + k, left);
        Vector after = load(slope.target + k);
        if (later) after += load(later->hidden + k);
        const Vector by_fresh = after * (1.0f - stay) * (1.0f - fresh * fresh);
        const Vector by_stay = after * (load(row.hidden + k) - fresh) * (stay * (1.0f - stay));
        const Vector by_reset = by_fresh * across * (reset * (1.0f - reset));
        store_some(slope.gates + k, by_reset, left);
        store_some(slope.gates + size + k, by_stay, left);
        store_some(slope.gates + 2 * size + k, by_fresh, left);
        store_some(slope.across + k, by_reset, left);
        store_some(slope.across + size + k, by_stay, left);
        store_some(slope.across + 2 * size + k, by_fresh * reset, left);
        store(slope.hidden + k, after * stay);
    }
}

// The slopes of the gates of all steps, and for LSTM and GRU what they mean for the weights across.
void backward_cell(const Plan& plan, const Cell& cell, const float* parameters, const float* packed, const Block& block,
                   float* slopes, float* gradient) {
    const Layer& across = cell.across;
    const std::size_t stride = plan.strides[cell.hidden];
    const bool is_mingru = cell.kind == CellKind::MINGRU;
    for (int step = block.steps - 1; step >= 0; --step) {
        const std::size_t first = static_cast<std::size_t>(step) * block.columns;
        for (std::size_t now = first; now < first + block.columns; ++now) {
            const CellRow row = row_of(plan, cell, block.values, now), slope = row_of(plan, cell, slopes, now);
            const std::size_t next = now + block.columns;
            const bool goes_on = step + 1 < block.steps && !block.starts[next];
            const CellRow after = goes_on ? row_of(plan, cell, slopes, next) : slope;
            const CellRow* later = goes_on ? &after : nullptr;
            switch (cell.kind) {
                case CellKind::MINGRU: recall_mingru(cell.size, row, slope, later); break;
                case CellKind::LSTM: recall_lstm(cell.size, row, slope, later); break;
                case CellKind::GRU: recall_gru(cell.size, row, slope, later); break;
            }
        }
        if (is_mingru || step == 0) continue;  // nobody asks for the slope of the state that a stretch begins with
        const std::size_t out_stride = plan.strides[across.target];
        const Operands at = {slopes + plan.places[across.target] + first * out_stride,
                             out_stride,
                             1,
                             across.widened == NOWHERE ? parameters + across.weight : packed + across.widened,
                             stride,
                             slopes + plan.places[cell.hidden] + first * stride,
                             stride,
                             nullptr,
                             nullptr,
                             nullptr};
        if (cell.kind == CellKind::LSTM) {
            product<Start::ZERO>(block.columns, static_cast<int>(stride), across.outputs, at);
        } else {
            product<Start::ADD>(block.columns, static_cast<int>(stride), across.outputs, at);
        }
    }
    if (is_mingru) return;
    // Both biases of an LSTM have the same slopes; the layer into the gates sums them.
    if (cell.kind == CellKind::GRU) close_slopes(plan, across, block, slopes, gradient);
    add_layer_slopes(plan, across, block, slopes, gradient);
}
