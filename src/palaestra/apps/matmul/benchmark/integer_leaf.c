// C = A B for whole numbers of 64 bits, modulo 2^64: tiles of 4 x 4, packed so that they are read in order.
//
// AVX2 has no product of 64 bits. With a = a1 2^32 + a0 and b likewise, a b = a0 b0 + 2^32 (a0 b1 + a1 b0): the first
// is one instruction for four numbers, and the bracket, of which only 32 bits count, is one instruction with b's halves
// exchanged. The brackets are summed in 32 bits and shifted once at the end.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef uint64_t T;

// Part of a larger matrix: its rows are `wide` entries apart.
typedef struct {
  T *at;
  ptrdiff_t wide;
} Matrix;

typedef struct {
  ptrdiff_t rows, inner, columns;
} Sides;

enum { TILE = 4, DEPTH = 256, HIGH = 64, WIDE = 512 };

static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

static Matrix part(Matrix whole, ptrdiff_t row, ptrdiff_t column) {
  return (Matrix){whole.at + row * whole.wide + column, whole.wide};
}

// Panels of 4 rows, depth by depth; what is missing is 0.
static void pack_left(Matrix a, ptrdiff_t rows, ptrdiff_t depth, T *packed) {
  ptrdiff_t i = 0;
  for (; i + TILE <= rows; i += TILE, packed += TILE * depth) {
    const T *first = part(a, i, 0).at, *second = first + a.wide, *third = second + a.wide, *fourth = third + a.wide;
    for (ptrdiff_t k = 0; k < depth; ++k) {
      packed[TILE * k] = first[k];
      packed[TILE * k + 1] = second[k];
      packed[TILE * k + 2] = third[k];
      packed[TILE * k + 3] = fourth[k];
    }
  }
  if (i < rows)
    for (ptrdiff_t k = 0; k < depth; ++k)
      for (ptrdiff_t r = 0; r < TILE; ++r) *packed++ = i + r < rows ? *part(a, i + r, k).at : 0;
}

// One panel of 4 columns, depth by depth; what is missing is 0.
static void pack_right(Matrix b, ptrdiff_t depth, ptrdiff_t columns, T *packed) {
  if (columns >= TILE) {
    for (ptrdiff_t k = 0; k < depth; ++k) memcpy(packed + TILE * k, b.at + k * b.wide, sizeof(T) * TILE);
    return;
  }
  for (ptrdiff_t k = 0; k < depth; ++k)
    for (ptrdiff_t c = 0; c < TILE; ++c) *packed++ = c < columns ? *part(b, k, c).at : 0;
}

#ifdef __AVX2__
static inline __attribute__((always_inline)) void multiply_tile(const T *a, const T *b, ptrdiff_t depth, T *tile) {
  __m256i low[TILE], cross[TILE];
  for (int r = 0; r < TILE; ++r) low[r] = cross[r] = _mm256_setzero_si256();
#pragma GCC unroll 2
  for (ptrdiff_t k = 0; k < depth; ++k) {
    __m256i straight = _mm256_loadu_si256((const __m256i *)(b + TILE * k));
    __m256i exchanged = _mm256_shuffle_epi32(straight, 0xb1);
    __asm__("" : "+x"(straight), "+x"(exchanged));  // kept in registers: loading them for each row is slower by a fifth
    for (int r = 0; r < TILE; ++r) {
      const __m256i each = _mm256_set1_epi64x((long long)a[TILE * k + r]);
      low[r] = _mm256_add_epi64(low[r], _mm256_mul_epu32(each, straight));
      cross[r] = _mm256_add_epi32(cross[r], _mm256_mullo_epi32(each, exchanged));
    }
  }
  for (int r = 0; r < TILE; ++r) {
    const __m256i halves = _mm256_add_epi32(cross[r], _mm256_srli_epi64(cross[r], 32));
    const __m256i sum = _mm256_add_epi64(low[r], _mm256_slli_epi64(halves, 32));
    _mm256_storeu_si256((__m256i *)(tile + r * TILE), sum);
  }
}
#else
static void multiply_tile(const T *a, const T *b, ptrdiff_t depth, T *tile) {
  memset(tile, 0, sizeof(T) * TILE * TILE);
  for (ptrdiff_t k = 0; k < depth; ++k, a += TILE, b += TILE)
    for (int r = 0; r < TILE; ++r)
      for (int c = 0; c < TILE; ++c) tile[r * TILE + c] += a[r] * b[c];
}
#endif

static void put_tile(const T *tile, Matrix c, ptrdiff_t rows, ptrdiff_t columns, int adds) {
  for (ptrdiff_t r = 0; r < rows; ++r)
    for (ptrdiff_t k = 0; k < columns; ++k) c.at[r * c.wide + k] = (adds ? c.at[r * c.wide + k] : 0) + tile[r * TILE + k];
}

// At most 64 rows of C, from packed panels of B.
static void multiply_strip(Matrix a, const T *right, Matrix c, Sides sides, int adds) {
  _Alignas(64) T left[HIGH * DEPTH];
  _Alignas(64) T tile[TILE * TILE];
  pack_left(a, sides.rows, sides.inner, left);
  for (ptrdiff_t j = 0; j < sides.columns; j += TILE)
    for (ptrdiff_t i = 0; i < sides.rows; i += TILE) {
      multiply_tile(left + i * sides.inner, right + j * sides.inner, sides.inner, tile);
      const Matrix corner = part(c, i, j);
      if (i + TILE <= sides.rows && j + TILE <= sides.columns)
        put_tile(tile, corner, TILE, TILE, adds);
      else
        put_tile(tile, corner, least(TILE, sides.rows - i), least(TILE, sides.columns - j), adds);
    }
}

// C = A B, or C + A B when it `adds`; `right` has room for DEPTH x WIDE entries.
static void multiply_leaf(Matrix a, Matrix b, Matrix c, Sides sides, int adds, T *right, int threads) {
  (void)threads;
  for (ptrdiff_t j = 0; j < sides.columns; j += WIDE)
    for (ptrdiff_t k = 0; k < sides.inner; k += DEPTH) {
      const ptrdiff_t wide = least(WIDE, sides.columns - j), depth = least(DEPTH, sides.inner - k);
#pragma omp parallel num_threads(threads) if (threads > 1)
      {
#pragma omp for schedule(static)
        for (ptrdiff_t panel = 0; panel < wide; panel += TILE)
          pack_right(part(b, k, j + panel), depth, wide - panel, right + panel * depth);
#pragma omp for schedule(static)
        for (ptrdiff_t i = 0; i < sides.rows; i += HIGH)
          multiply_strip(part(a, i, k), right, part(c, i, j), (Sides){least(HIGH, sides.rows - i), depth, wide},
                         adds || k > 0);
      }
    }
}
