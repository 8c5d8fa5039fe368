import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, bytes, duration, number, percent, short } from '../src/lib/format.ts';
import { cleanLine, journalLine, LogLines, pieces, toneOf, withoutColours } from '../src/lib/log_text.ts';
import { groupMetrics } from '../src/lib/metric_groups.ts';
import { lineStyleOf } from '../src/lib/palette.ts';
import { readLocation, writeLocation } from '../src/lib/view_location.ts';
import { sparkPaths } from '../src/lib/sparkline.ts';
import { actionsFor } from '../src/lib/states.ts';
import type { Series } from '../src/lib/types.ts';
import { makeRun } from './made.ts';

test('what is not known is a dash, and zero is a number', () => {
  for (const nothing of [null, undefined, NaN, Infinity]) assert.equal(number(nothing), '–');
  assert.equal(number(0), '0');
  assert.equal(percent(null), '–');
});

test('numbers keep about four digits', () => {
  assert.equal(number(2354.4), '2,354');
  assert.equal(number(21.256), '21.26');
  assert.equal(number(-0.0421), '\u22120.042');
  assert.equal(number(0.00001), '1e\u22125');
});

test('steps, sizes and times are short', () => {
  assert.equal(short(1_200_000), '1.2 M');
  assert.equal(short(999), '999');
  assert.equal(bytes(84_213), '84.2 kB');
  assert.equal(duration(3725), '1 h 2 min');
  assert.equal(duration(61), '1 min 1 s');
  assert.equal(ago(1000, 1010), 'just now');
  assert.equal(ago(0, 7200), '2 h ago');
});

test('a run is never shown as done before it is', () => {
  assert.equal(percent(0.9999), '99 %');
});

test('an address comes back as it was written, whatever is in it', () => {
  const words = ['run', 'a/b c', 'ü?#'];
  const query = { search: 'x&y=z', empty: '' };
  assert.deepEqual(readLocation(writeLocation(words, query)), { words, query: { search: 'x&y=z' } });
  assert.deepEqual(readLocation('#/run/%E0%A4%A'), { words: ['run', '%E0%A4%A'], query: {} });
  assert.deepEqual(readLocation(''), { words: [], query: {} });
});

test('colours of a terminal leave no trace', () => {
  assert.equal(withoutColours('\u001b[1;31mred\u001b[0m \u001b]0;title\u0007x'), 'red x');
  assert.equal(cleanLine('10 %\r50 %\r100 %'), '100 %');
  assert.equal(cleanLine('windows\r'), 'windows');
});

test('a line that comes in two pieces is one line', () => {
  const log = new LogLines(10);
  log.add('first\nsec');
  assert.deepEqual(log.all, ['first', 'sec']);
  log.add('ond\n');
  assert.deepEqual(log.all, ['first', 'second']);
});

test('a log that goes on for ever keeps its newest lines', () => {
  const log = new LogLines(3);
  for (let line = 0; line < 10; line++) log.add(`${line}\n`);
  assert.deepEqual(log.all, ['7', '8', '9']);
  assert.equal(log.dropped, 7);
});

test('pieces of a searched line are the line again', () => {
  for (const [line, search] of [['Loss loss LOSS', 'loss'], ['nothing', 'x'], ['', 'x'], ['aaa', 'aa']] as const) {
    assert.equal(pieces(line, search).map((piece) => piece.text).join(''), line);
  }
  assert.deepEqual(pieces('Loss loss', 'loss').filter((piece) => piece.isFound).length, 2);
});

test('what happened is one line, whatever stands in it', () => {
  const entry = { number: 1, at: 0, event: 'checkpoint.saved', level: 'info', rank: 1, data: { epoch: 4, file: 'a\nb' } };
  assert.equal(journalLine(entry), '1970-01-01 00:00:00 INFO checkpoint.saved rank=1 epoch=4 file=a b');
});

test('an error is seen, "errors=0" of a word is not', () => {
  assert.equal(toneOf('ERROR it broke'), 'bad');
  assert.equal(toneOf('terror'), '');
  assert.equal(toneOf('a warning'), 'warn');
});

test('the return comes first, then evaluations, then the rest by name', () => {
  const groups = groupMetrics(['time/a', 'losses/b', 'eval/episodic_return', 'charts/SPS', 'charts/episodic_return', 'plain'], '');
  assert.deepEqual(groups.map((group) => group.title), ['charts', 'eval', 'losses', 'other', 'time']);
  assert.equal(groups[0]!.names[0], 'charts/episodic_return');
  const values = groupMetrics(['losses/alpha', 'losses/actor_loss', 'losses/q_values', 'charts/SPS', 'charts/epsilon', 'charts/episodic_return', 'replay/transitions'], '');
  assert.deepEqual(values.map((group) => group.names), [['charts/episodic_return', 'charts/epsilon', 'charts/SPS'], ['losses/q_values', 'losses/alpha', 'losses/actor_loss'], ['replay/transitions']]);
  assert.deepEqual(groupMetrics(['losses/kl', 'charts/SPS'], 'KL los').map((group) => group.names), [['losses/kl']]);
});

test('the first twenty-eight curves look different from each other', () => {
  const looks = Array.from({ length: 28 }, (_, place) => JSON.stringify(lineStyleOf(place, 'light')));
  assert.equal(new Set(looks).size, 28);
});

test('a small curve stays inside its box and shows its spike in the band', () => {
  const made = (x: number[], mean: number[], max = mean): Series => ({ run: 'a', name: 'b', x, min: mean, max, mean, count: x.map(() => 1), bad: x.map(() => 0) });
  const [paths] = sparkPaths([made([0, 1, 2], [0, 5, 5], [0, 100, 5])], 120, 30);
  const heights = [...paths!.band.matchAll(/[\d.]+ ([\d.]+)/g)].map((found) => Number(found[1]));
  assert.ok(heights.every((height) => height >= 1 && height <= 29));
  assert.equal(Math.min(...heights), 1);
  assert.deepEqual(sparkPaths([made([], [])], 120, 30), []);
  assert.doesNotMatch(sparkPaths([made([3], [7])], 120, 30)[0]!.line, /NaN/);
});

test('each state offers what can be done in it', () => {
  assert.deepEqual(actionsFor(makeRun({ state: 'running' })), ['stop', 'clone']);
  assert.deepEqual(actionsFor(makeRun({ state: 'queued' })), ['cancel', 'clone']);
  assert.ok(actionsFor(makeRun({ state: 'failed' })).includes('retry'));
  for (const state of ['queued', 'running', 'stopping'] as const) assert.ok(!actionsFor(makeRun({ state })).includes('remove'));
});
