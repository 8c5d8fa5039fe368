import assert from 'node:assert/strict';
import { test } from 'node:test';
import { groupName, groupRuns, seedCount, seedText, spreadOf } from '../src/lib/groups.ts';
import { makeRun } from './made.ts';

test('runs that differ in their seed only come together, in the order of the first', () => {
  const runs = [makeRun({ id: '1', group: 'x' }), makeRun({ id: '2', group: 'y' }), makeRun({ id: '3', group: 'x' }), makeRun({ id: '4', group: '' })];
  assert.deepEqual(groupRuns(runs).map((group) => group.runs.map((run) => run.id)), [['1', '3'], ['2'], ['4']]);
});

test('a mean is of what is known; of nothing there is none', () => {
  assert.deepEqual(spreadOf([1, null, 3, undefined, NaN]), { mean: 2, low: 1, high: 3, count: 2 });
  assert.equal(spreadOf([null]), null);
});

test('zero is known', () => {
  assert.equal(spreadOf([0, 4])?.mean, 2);
});

test('a group is called what its runs have in common, else its recipe', () => {
  const named = (...names: string[]) => ({ key: 'k', runs: names.map((name) => makeRun({ name })) });
  assert.equal(groupName(named('wide-1', 'wide-2')), 'wide');
  assert.equal(groupName(named('otter', 'heron')), 'cartpole');
});

test('copies of one seed are not several seeds', () => {
  const copies = [1, 1, 1].map((seed) => makeRun({ seed }));
  assert.equal(seedText(copies.length, seedCount(copies)), '3 runs of 1 seed');
  assert.equal(seedText(2, 2), '2 seeds');
  assert.equal(seedText(1500, 7), '1,500 runs of 7 seeds');
  assert.equal(seedText(3, seedCount([makeRun({ seed: null })])), '3 runs');
});
