import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Batch, RunDetail } from '../src/lib/types.ts';
import { secondsLeft } from '../src/lib/states.ts';
import { describeNormalisers } from '../src/play/inspect.ts';
import { batchCurve, recordedBy, targetOf } from '../src/run/evaluation.ts';
import { makeRun } from './made.ts';

const detail = (target: string) => ({ config: { target } }) as unknown as RunDetail;

test('the evaluated checkpoint is read from the target; a path elsewhere has no page', () => {
  assert.deepEqual(targetOf(detail('01M7QES11CSNKD5QBFME5Z4W2R:best')), { run: '01M7QES11CSNKD5QBFME5Z4W2R', selector: 'best' });
  assert.equal(targetOf(detail('/elsewhere/model_0001.yaml')), null);
  assert.equal(targetOf(null), null);
});

test('batches become a curve with a band from the lowest to the highest episode', () => {
  const batch = (number: number, avg: number | null) => ({ batch: number, avg, min: 1, max: 9 }) as unknown as Batch;
  const curve = batchCurve([batch(1, 5), batch(2, null)], { colour: 'c', dash: [] });
  assert.deepEqual([...curve.x], [1, 2]);
  assert.deepEqual([curve.line[0], curve.low[0], curve.high[0]], [5, 1, 9]);
  assert.ok(Number.isNaN(curve.line[1]));
});

test('only what was written while an evaluation ran is its own', () => {
  const files = [5, 15, 25].map((created_at) => ({ created_at }));
  assert.deepEqual(recordedBy(makeRun({ started_at: 10, ended_at: 20 }), files), [{ created_at: 15 }]);
  assert.deepEqual(recordedBy(makeRun({ started_at: 10, ended_at: null }), files).length, 2);
});

test('time that is left is never negative, and unknown where a run has no end', () => {
  const left = (change: object) => secondsLeft(makeRun({ summary: { steps_per_second: 100 }, ...change }), 10);
  assert.equal(left({ agent_step: 1000, total_steps: 2000, progress: 0.5 }), 10);
  assert.equal(left({ agent_step: 2020, total_steps: 2000, progress: 1 }), null);
  assert.equal(left({ agent_step: 1000, total_steps: 0, progress: null }), null);
  assert.equal(left({ agent_step: 900, total_steps: 0, progress: 0.25 }), 30);
  assert.equal(left({ state: 'stopping' }), null);
});

test('normalisers of a script are counted', () => {
  assert.equal(describeNormalisers({ observations: true, returns: true, copies: 0 }), 'observations, returns');
  assert.equal(describeNormalisers({ observations: true, returns: false, copies: 8 }), 'observations (8, one for each environment)');
  assert.equal(describeNormalisers({ observations: false, returns: false, copies: 0 }), 'none');
});
