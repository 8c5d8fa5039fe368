import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visibleRows } from '../src/lib/visible_rows.ts';

test('at the top of a long table only the first rows are there', () => {
  const [first, end] = visibleRows(200, 50, 800, 5000);
  assert.equal(first, 0);
  assert.ok(end >= 800 / 50 && end < 40);
});

test('every row that can be seen is there, wherever the table was scrolled to', () => {
  for (const scrolled of [0, 1, 49, 50, 12_345, 249_150, 250_000]) {
    const [first, end] = visibleRows(-scrolled, 50, 800, 5000);
    assert.ok(first * 50 <= scrolled, `row ${first} begins below the edge at ${scrolled}`);
    assert.ok(Math.min(5000 * 50, scrolled + 800) <= end * 50);
    assert.ok(end - first < 60);
  }
});

test('a short or empty table has all of its rows', () => {
  assert.deepEqual(visibleRows(100, 50, 800, 3), [0, 3]);
  assert.deepEqual(visibleRows(100, 50, 800, 0), [0, 0]);
  assert.deepEqual(visibleRows(-99_999, 50, 800, 3), [3, 3]);
});
