// A scheme applied inside itself, for whole numbers. Before this text stand the leaf, and of the scheme its sides N, M
// and P, its RANK, where its factors are (LEFT_ORDER, RIGHT_ORDER: a block's number, or behind the blocks a sum's), how
// many sums there are, and the functions that make them.

enum { LINE = 8, STAGGER = 17 };  // entries of a line of the cache; lines between planes, or all would fall on one place

// Entries from one row of a plane to the next: every row begins with a line, and no power of 2 lies between two.
static ptrdiff_t plane_width(ptrdiff_t columns) { return (columns + LINE - 1) / LINE * LINE + LINE; }

static ptrdiff_t plane_size(ptrdiff_t rows, ptrdiff_t columns) { return rows * plane_width(columns) + STAGGER * LINE; }

static T *place(T *room, ptrdiff_t rows, ptrdiff_t columns, int count, Matrix *planes) {
  for (int k = 0; k < count; ++k, room += plane_size(rows, columns)) planes[k] = (Matrix){room, plane_width(columns)};
  return room;
}

static void split(Matrix whole, int high, int wide, ptrdiff_t rows, ptrdiff_t columns, Matrix *blocks) {
  for (int i = 0; i < high; ++i)
    for (int j = 0; j < wide; ++j) blocks[i * wide + j] = part(whole, i * rows, j * columns);
}

static Sides block_sides(Sides sides) { return (Sides){sides.rows / N, sides.inner / M, sides.columns / P}; }

static int ends(Sides sides, int levels) {
  const Sides block = block_sides(sides);
  return levels == 0 || block.rows == 0 || block.inner == 0 || block.columns == 0;
}

// Entries that `multiply` wants for its sums and products, of all levels.
ptrdiff_t workspace_size(ptrdiff_t rows, ptrdiff_t inner, ptrdiff_t columns, int levels) {
  ptrdiff_t total = 0;
  for (Sides sides = {rows, inner, columns}; !ends(sides, levels); --levels) {
    sides = block_sides(sides);
    total += LEFT_SUMS * plane_size(sides.rows, sides.inner) + RIGHT_SUMS * plane_size(sides.inner, sides.columns) +
             RANK * plane_size(sides.rows, sides.columns);
  }
  return total;
}

static void descend(Matrix a, Matrix b, Matrix c, Sides sides, int levels, T *room, T *right_panels, int threads) {
  if (ends(sides, levels)) {
    multiply_leaf(a, b, c, sides, 0, right_panels, threads);
    return;
  }
  const Sides block = block_sides(sides);
  Matrix lefts[N * M + LEFT_SUMS], rights[M * P + RIGHT_SUMS], products[RANK], results[N * P];
  split(a, N, M, block.rows, block.inner, lefts);
  split(b, M, P, block.inner, block.columns, rights);
  split(c, N, P, block.rows, block.columns, results);
  room = place(room, block.rows, block.inner, LEFT_SUMS, lefts + N * M);
  room = place(room, block.inner, block.columns, RIGHT_SUMS, rights + M * P);
  room = place(room, block.rows, block.columns, RANK, products);
  left(lefts, lefts + N * M, block.rows, block.inner, threads);
  right(rights, rights + M * P, block.inner, block.columns, threads);
  for (int r = 0; r < RANK; ++r)
    descend(lefts[LEFT_ORDER[r]], rights[RIGHT_ORDER[r]], products[r], block, levels - 1, room, right_panels, threads);
  product(products, results, block.rows, block.columns, threads);
  // the rim: what is left of the inner side, then of the columns, then of the rows
  const ptrdiff_t high = block.rows * N, deep = block.inner * M, wide = block.columns * P;
  if (deep < sides.inner)
    multiply_leaf(part(a, 0, deep), part(b, deep, 0), c, (Sides){high, sides.inner - deep, wide}, 1, right_panels,
                  threads);
  if (wide < sides.columns)
    multiply_leaf(a, part(b, 0, wide), part(c, 0, wide), (Sides){high, sides.inner, sides.columns - wide}, 0,
                  right_panels, threads);
  if (high < sides.rows)
    multiply_leaf(part(a, high, 0), b, part(c, high, 0), (Sides){sides.rows - high, sides.inner, sides.columns}, 0,
                  right_panels, threads);
}

// 0, or 1 when there is no memory.
int multiply(T *a, ptrdiff_t a_wide, T *b, ptrdiff_t b_wide, T *c, ptrdiff_t c_wide, ptrdiff_t rows, ptrdiff_t inner,
             ptrdiff_t columns, int levels, T *room, int threads) {
  T *right_panels = aligned_alloc(sizeof(T) * LINE, sizeof(T) * DEPTH * WIDE);
  if (right_panels == NULL) return 1;
  descend((Matrix){a, a_wide}, (Matrix){b, b_wide}, (Matrix){c, c_wide}, (Sides){rows, inner, columns}, levels, room,
          right_panels, threads);
  free(right_panels);
  return 0;
}
