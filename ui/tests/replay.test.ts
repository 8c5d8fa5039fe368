import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { Episode } from '../src/replay/episode.ts';
import { parse, unpack } from '../src/replay/file.ts';

const START = {
  step: 0,
  max_steps: 200,
  map: ['####', '#..#', '####'],
  stations: [[1, 2, 0, 3, -1]],
  agents: [[1, 1, 0, 2, 0, -1]],
  inventories: [[0, 0, 0, 0, 0]],
};

function text(steps: object[], claimed = steps.length): string {
  const header = JSON.stringify({ schema_version: 1, kind: 'arena', seed: 7, about: { run: 'first' }, start: START }).slice(0, -1);
  return `${header},"steps":[\n${steps.map((step) => JSON.stringify(step)).join(',\n')}\n],"end":${JSON.stringify({ steps: claimed, returns: [0] })}}`;
}

const STEPS = [
  { actions: '2' }, // it is frozen: it does not turn
  { actions: '2', items: [0, 1], rewards: [0, 0.5] }, // still frozen at the beginning of this step
  { actions: '2', cooldowns: [0, 8], rewards: [0, -0.25] },
];

test('states follow the changes and what changes by itself', () => {
  const episode = new Episode(parse(text(STEPS)));
  assert.equal(episode.length, 3);
  assert.deepEqual(episode.at(1).agents[0], { y: 1, x: 1, facing: 0, frozen: 1, team: 0, action: 2, items: [0, 0, 0, 0, 0] });
  assert.equal(episode.at(1).stations[0]!.cooldown, 2);
  assert.deepEqual(episode.at(3).agents[0], { y: 1, x: 1, facing: 1, frozen: 0, team: 0, action: 2, items: [1, 0, 0, 0, 0] });
  assert.equal(episode.at(3).stations[0]!.cooldown, 8);
  assert.equal(episode.at(0).agents[0]!.frozen, 2);
  assert.deepEqual([...episode.rewards(2)], [0.5]);
  assert.deepEqual([...episode.returns(3)], [0.25]);
});

test('a state is the same whichever way one comes to it', () => {
  const steps = Array.from({ length: 150 }, (_, index) => ({ actions: String((index % 4) + 1), items: [index % 5, index], rewards: [0, 1] }));
  const forwards = new Episode(parse(text(steps)));
  for (let step = 0; step <= 150; step++) forwards.at(step);
  const jumping = new Episode(parse(text(steps)));
  for (const step of [150, 3, 64, 149, 65, 0, 128]) {
    assert.deepEqual(jumping.at(step), forwards.at(step));
    assert.equal(jumping.returns(step)[0], step);
  }
});

test('what does not fit is refused', () => {
  assert.throws(() => parse(text(STEPS, 9)), /has 3 steps but declares 9/);
  assert.throws(() => parse(text(STEPS).slice(0, -60)), /truncated|JSON/);
  assert.throws(() => parse('{"kind":"chess"}'), /not a replay/);
  const bad: object[] = [{ actions: '22' }, { actions: '9' }, { actions: '0', cells: [4, 0] }, { actions: '0', cells: [0, 999] }, { actions: '0', items: [0, 0.5] }, { actions: '0', stocks: 'x' }];
  for (const step of bad) assert.throws(() => new Episode(parse(text([step]))).at(1), JSON.stringify(step));
});

test('a file is unpacked, and garbage is not', async () => {
  assert.equal(await unpack(new Blob([gzipSync(text(STEPS))])), text(STEPS));
  await assert.rejects(unpack(new Blob(['this is no gzip'])));
});
