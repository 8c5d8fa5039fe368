import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envelope, type Pixels } from '../src/plots/envelope.ts';
import { column } from './made.ts';

/** One pixel is one unit, ten of them wide; heights count downwards from 100. */
const pixels: Pixels = {
  left: 5,
  width: 10,
  x: (value) => 5 + value,
  y: (value) => 100 - value,
  has: (value) => !Number.isNaN(value),
  seen: ({ x }) => [0, x.length - 1],
};
const curve = (x: number[], low: number[], high: number[]) => ({ x: column(...x), low: column(...low), high: column(...high) });

test('every column reaches from the lowest to the highest of all curves', () => {
  const found = envelope([curve([0, 4], [10, 20], [30, 40]), curve([2, 6], [5, 60], [15, 70])], pixels);
  assert.deepEqual([...found.tops].map((top) => 100 - top), [30, 30, 30, 30, 40, 40, 70, 70, -Infinity, -Infinity]);
  assert.deepEqual([...found.feet].map((foot) => 100 - foot), [10, 10, 5, 5, 5, 5, 60, 60, Infinity, Infinity]);
});

test('a spike in a single stretch is never lost, however narrow', () => {
  const found = envelope([curve([0, 3, 3.2, 9], [1, 1, 1, 1], [2, 2, 90, 2])], pixels);
  assert.equal(100 - Math.min(...found.tops), 90);
});

test('gaps and what lies outside are left out', () => {
  const found = envelope([curve([-3, 1, 2, 30], [1, NaN, 1, 1], [2, 2, 2, 2])], pixels);
  assert.deepEqual([...found.tops].map((top) => top <= 98), [true, false, true, true, true, true, true, true, true, true]);
});
