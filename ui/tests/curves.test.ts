import assert from 'node:assert/strict';
import { test } from 'node:test';
import { curvesOf, extentX, extentY, firstAtOrAfter, groupedCurves, nearest, padded, valueAt, type CurveOptions } from '../src/lib/curves.ts';
import { column, makeRun, makeSeries } from './made.ts';

const plain: CurveOptions = { smoothing: 0, span: 100, lineStyleOf: (place) => ({ colour: `c${place}`, dash: [] }) };

test('halving finds what walking finds', () => {
  const x = column(0, 1, 1, 4, 9, 9, 30);
  for (let at = -1; at <= 31; at++) {
    const walked = x.findIndex((value) => value >= at);
    assert.equal(firstAtOrAfter(x, at), walked < 0 ? x.length : walked);
    const distances = x.map((value) => Math.abs(value - at));
    assert.equal(distances[nearest(x, at)], Math.min(...distances));
  }
});

test('between two points a value lies on the line between them, outside there is none', () => {
  const [x, values] = [column(0, 10), column(5, 25)];
  assert.equal(valueAt(x, values, 4), 13);
  assert.equal(valueAt(x, values, 10), 25);
  assert.equal(valueAt(x, values, 11), NaN);
  assert.equal(valueAt(x, values, -1), NaN);
  assert.equal(valueAt(x, column(NaN, 25), 5), NaN);
});

test('the height of a chart holds every spike of the bands', () => {
  const series = makeSeries('a', [0, 1, 2], [1, 1, 1], { min: [1, -50, 1], max: [1, 70, 1], count: [1, 9, 1] });
  const curves = curvesOf([makeRun()], [series], plain);
  assert.deepEqual(extentY(curves, [0, 2], false), [-50, 70]);
  assert.deepEqual(extentY(curves, [0, 2], true), [1, 70]);
});

test('a spike just outside of the zoom does not squeeze what is inside, but its neighbour line is drawn', () => {
  const series = makeSeries('a', [0, 10, 20, 30], [1000, 1, 2, 3]);
  assert.deepEqual(extentY(curvesOf([makeRun()], [series], plain), [15, 25], false), [1, 3]);
});

test('seeds become their mean with a band from the lowest to the highest', () => {
  const runs = [makeRun({ id: 'a', seed: 1 }), makeRun({ id: 'b', seed: 2 }), makeRun({ id: 'c', seed: 3, group: 'other' })];
  const series = [makeSeries('a', [0, 100], [0, 10]), makeSeries('b', [0, 50, 100], [20, 20, 20]), makeSeries('c', [0, 1], [7, 7])];
  const [both, alone] = groupedCurves(runs, series, plain);
  const middle = nearest(both!.x, 50);
  const at = both!.x[middle]!;
  assert.ok(Math.abs(both!.mean[middle]! - (at / 10 + 20) / 2) < 1e-9);
  assert.ok(Math.abs(both!.low[middle]! - at / 10) < 1e-9);
  assert.equal(both!.high[middle], 20);
  assert.match(both!.label, /2 seeds/);
  assert.deepEqual([...alone!.mean], [7, 7]);
});

test('the mean of seeds ends where the slowest seed is', () => {
  const runs = [makeRun({ id: 'a' }), makeRun({ id: 'b' })];
  const [curve] = groupedCurves(runs, [makeSeries('a', [0, 40], [1, 1]), makeSeries('b', [10, 90], [3, 3])], plain);
  assert.deepEqual(extentX([curve!]), [10, 40]);
});

test('a group of which nothing is measured yet draws nothing', () => {
  const [curve] = groupedCurves([makeRun()], [makeSeries('a', [], [])], plain);
  assert.equal(curve!.x.length, 0);
  assert.equal(extentX([curve!]), null);
});

test('what was not a number is marked where it was', () => {
  const [curve] = curvesOf([makeRun()], [makeSeries('a', [1, 2, 3], [1, NaN, 1], { count: [1, 0, 1], bad: [0, 2, 0] })], plain);
  assert.deepEqual([...curve!.bad], [2]);
});

test('seeds of which one knows nothing somewhere have no mean there', () => {
  const runs = [makeRun({ id: 'a' }), makeRun({ id: 'b' })];
  const [curve] = groupedCurves(runs, [makeSeries('a', [0, 50, 100], [1, NaN, 1], { count: [1, 0, 1] }), makeSeries('b', [0, 100], [3, 3])], plain);
  const middle = nearest(curve!.x, 50);
  assert.ok([curve!.mean, curve!.low, curve!.high].every((values) => Number.isNaN(values[middle])));
  assert.equal(extentY([curve!], [0, 100], false)?.join(), '1,3');
});

test('single points have no band', () => {
  const [single] = curvesOf([makeRun()], [makeSeries('a', [0, 1], [1, 2])], plain);
  assert.ok(single!.low === single!.mean && single!.high === single!.mean);
  const [wide] = curvesOf([makeRun()], [makeSeries('a', [0, 1], [1, 2], { min: [0, 1], max: [9, 9], count: [2, 2] })], plain);
  assert.deepEqual([[...wide!.low], [...wide!.high]], [[0, 1], [9, 9]]);
});

test('a flat line stands in the middle of some air, also on a log axis', () => {
  for (const [low, high] of [padded([5, 5], false), padded([0, 0], false), padded([5, 5], true)]) assert.ok(low < high);
  const [low, high] = padded([0, 100], false);
  assert.ok(low < 0 && high > 100);
});

test('differences of rounding are not blown up to the height of the chart', () => {
  const [low, high] = padded([500 - 1e-13, 500 + 1e-13], false);
  assert.ok(high - low > 1);
});
