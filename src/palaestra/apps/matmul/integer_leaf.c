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

enum { TILE = 4, DEPTH = 256, HIGH = 64, WIDE = 512 };

static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

// Panels of 4 rows, depth by depth; what is missing is 0.
static void pack_left(const uint64_t *a, ptrdiff_t wide, ptrdiff_t rows, ptrdiff_t depth, uint64_t *packed) {
  for (ptrdiff_t i = 0; i < rows; i += TILE)
    for (ptrdiff_t k = 0; k < depth; ++k)
      for (ptrdiff_t r = 0; r < TILE; ++r) *packed++ = i + r < rows ? a[(i + r) * wide + k] : 0;
}

// One panel of 4 columns, depth by depth, and beside each four the same with their halves exchanged.
static void pack_right(const uint64_t *b, ptrdiff_t wide, ptrdiff_t depth, ptrdiff_t columns, uint64_t *packed) {
  for (ptrdiff_t k = 0; k < depth; ++k, packed += 2 * TILE)
    for (ptrdiff_t c = 0; c < TILE; ++c) {
      const uint64_t value = c < columns ? b[k * wide + c] : 0;
      packed[c] = value;
      packed[TILE + c] = value << 32 | value >> 32;
    }
}

#ifdef __AVX2__
static void multiply_tile(const uint64_t *a, const uint64_t *b, ptrdiff_t depth, uint64_t *tile) {
  __m256i low[TILE], cross[TILE];
  for (int r = 0; r < TILE; ++r) low[r] = cross[r] = _mm256_setzero_si256();
  for (ptrdiff_t k = 0; k < depth; ++k, a += TILE, b += 2 * TILE) {
    const __m256i straight = _mm256_loadu_si256((const __m256i *)b);
    const __m256i exchanged = _mm256_loadu_si256((const __m256i *)(b + TILE));
    for (int r = 0; r < TILE; ++r) {
      const __m256i each = _mm256_set1_epi64x((long long)a[r]);
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
static void multiply_tile(const uint64_t *a, const uint64_t *b, ptrdiff_t depth, uint64_t *tile) {
  memset(tile, 0, sizeof(uint64_t) * TILE * TILE);
  for (ptrdiff_t k = 0; k < depth; ++k, a += TILE, b += 2 * TILE)
    for (int r = 0; r < TILE; ++r)
      for (int c = 0; c < TILE; ++c) tile[r * TILE + c] += a[r] * b[c];
}
#endif

static void add_tile(const uint64_t *tile, uint64_t *c, ptrdiff_t wide, ptrdiff_t rows, ptrdiff_t columns, int begins) {
  for (ptrdiff_t r = 0; r < rows; ++r)
    for (ptrdiff_t k = 0; k < columns; ++k)
      c[r * wide + k] = (begins ? 0 : c[r * wide + k]) + tile[r * TILE + k];
}

// Rows `top` … of C, from packed panels of B.
static void multiply_strip(const uint64_t *a, ptrdiff_t a_wide, const uint64_t *right, uint64_t *c, ptrdiff_t c_wide,
                           ptrdiff_t rows, ptrdiff_t depth, ptrdiff_t columns, int begins) {
  uint64_t left[HIGH * DEPTH];
  uint64_t tile[TILE * TILE];
  pack_left(a, a_wide, rows, depth, left);
  for (ptrdiff_t j = 0; j < columns; j += TILE)
    for (ptrdiff_t i = 0; i < rows; i += TILE) {
      multiply_tile(left + i * depth, right + j * 2 * depth, depth, tile);
      add_tile(tile, c + i * c_wide + j, c_wide, least(TILE, rows - i), least(TILE, columns - j), begins);
    }
}

// 0, or 1 when there is no memory.
int multiply(const uint64_t *a, ptrdiff_t a_wide, const uint64_t *b, ptrdiff_t b_wide, uint64_t *c, ptrdiff_t c_wide,
             ptrdiff_t rows, ptrdiff_t inner, ptrdiff_t columns, int threads) {
  (void)threads;
  uint64_t *right = malloc(sizeof(uint64_t) * 2 * DEPTH * WIDE);
  if (right == NULL) return 1;
  for (ptrdiff_t j = 0; j < columns; j += WIDE)
    for (ptrdiff_t k = 0; k < inner; k += DEPTH) {
      const ptrdiff_t wide = least(WIDE, columns - j), depth = least(DEPTH, inner - k);
#pragma omp parallel num_threads(threads) if (threads > 1)
      {
#pragma omp for schedule(static)
        for (ptrdiff_t panel = 0; panel < wide; panel += TILE)
          pack_right(b + k * b_wide + j + panel, b_wide, depth, wide - panel, right + panel * 2 * depth);
#pragma omp for schedule(static)
        for (ptrdiff_t i = 0; i < rows; i += HIGH)
          multiply_strip(a + i * a_wide + k, a_wide, right, c + i * c_wide + j, c_wide, least(HIGH, rows - i), depth,
                         wide, k == 0);
      }
    }
  free(right);
  return 0;
}
