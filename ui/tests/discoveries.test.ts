import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byFormat, overField, standing } from '../src/discoveries/ask.ts';
import type { FoundScheme } from '../src/lib/types.ts';

const scheme = (format: string, field: string, rank: number) => ({ id: `${format}-${field}-${rank}`, format, field, rank }) as FoundScheme;

test('schemes stand under their format, in the order in which they came', () => {
  const found = [scheme('2x2x2', 'gf2', 7), scheme('3x3x3', 'z', 23), scheme('2x2x2', 'z', 7)];
  assert.deepEqual(byFormat(found).map(([format, all]) => [format, all.map((one) => one.field)]), [['2x2x2', ['gf2', 'z']], ['3x3x3', ['z']]]);
});

test('a field filters the schemes, and no field shows all', () => {
  const found = [scheme('2x2x2', 'gf2', 7), scheme('2x2x2', 'z', 7)];
  assert.deepEqual(overField(found, 'z').map((one) => one.field), ['z']);
  assert.equal(overField(found, '').length, 2);
});

test('a rank is told by its distance from the best known one', () => {
  assert.equal(standing({ rank: 7, known: 7, comparison: 'matches' }).text, 'matches the best known');
  assert.equal(standing({ rank: 26, known: 23, comparison: 'above' }).text, '3 above the best known');
  assert.match(standing({ rank: 46, known: 47, comparison: 'below' }).text, /^1 below .*twice$/);
});

test('without a known rank nothing is claimed, and a word of a newer daemon is no reason to fail', () => {
  assert.equal(standing({ rank: 90, known: null, comparison: 'unknown' }).text, 'no rank is known');
  assert.equal(standing({ rank: 90, known: 80, comparison: 'strange' as never }).text, 'no rank is known');
});
