import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reachOf, smooth } from '../src/lib/smoothing.ts';
import { column } from './made.ts';

/** The definition, written out: every point weighs count · exp(−distance / reach). */
function written(x: number[], values: number[], counts: number[], reach: number): number[] {
  return values.map((own, here) => {
    if (Number.isNaN(own)) return NaN;
    let [sum, weight] = [0, 0];
    values.forEach((value, there) => {
      if (Number.isNaN(value)) return;
      const share = counts[there]! * Math.exp(-Math.abs(x[here]! - x[there]!) / reach);
      [sum, weight] = [sum + share * value, weight + share];
    });
    return sum / weight;
  });
}

test('a smoothed curve is the definition written out, gaps and weights included', () => {
  const x = [0, 1, 5, 6, 20, 21];
  const values = [3, NaN, 8, -2, 100, 1];
  const counts = [1, 0, 2, 7, 1, 3];
  const found = smooth(column(...x), column(...values), column(...counts), 4);
  written(x, values, counts, 4).forEach((value, place) => {
    if (Number.isNaN(value)) assert.equal(found[place], NaN);
    else assert.ok(Math.abs(found[place]! - value) < 1e-9, `${place}: ${found[place]} is not ${value}`);
  });
});

test('without smoothing every value is as it was', () => {
  assert.deepEqual([...smooth(column(0, 1), column(1, NaN), column(1, 0), 0)], [1, NaN]);
});

test('a spike is drawn where it happened, not later', () => {
  const x = Float64Array.from({ length: 101 }, (_, place) => place);
  const values = x.map((place) => (place === 50 ? 1 : 0));
  const found = smooth(x, values, x.map(() => 1), 5);
  assert.equal(found.indexOf(Math.max(...found)), 50);
  assert.ok(Math.abs(found[45]! - found[55]!) < 1e-6);
});

test('half as many points of twice the weight give nearly the same curve', () => {
  const x = Float64Array.from({ length: 2000 }, (_, place) => place);
  const values = x.map((place) => Math.sin(place / 100));
  const fine = smooth(x, values, x.map(() => 1), 50);
  const pairs = x.filter((place) => place % 2 === 0);
  const coarse = smooth(pairs.map((place) => place + 0.5), pairs.map((place) => (values[place]! + values[place + 1]!) / 2), pairs.map(() => 2), 50);
  pairs.forEach((place, at) => assert.ok(Math.abs(coarse[at]! - (fine[place]! + fine[place + 1]!) / 2) < 1e-3));
});

test('the slider at rest reaches nowhere and never further than a tenth of the run', () => {
  assert.equal(reachOf(0, 1e6), 0);
  assert.equal(reachOf(1, 1e6), 1e5);
});
