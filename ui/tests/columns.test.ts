import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readColumns } from '../src/lib/columns.ts';

/** Written byte by byte, as docs/api.md has it. */
function written(head: string, numbers: number[]): ArrayBuffer {
  const bytes = new ArrayBuffer(4 + head.length + 8 * numbers.length);
  const view = new DataView(bytes);
  view.setUint32(0, head.length, true);
  [...head].forEach((letter, place) => view.setUint8(4 + place, letter.charCodeAt(0)));
  numbers.forEach((number, place) => view.setFloat64(4 + head.length + 8 * place, number, true));
  return bytes;
}

/** Filled up so that the doubles begin at a multiple of eight. */
const filled = (text: string) => text.padEnd(text.length + ((8 - ((4 + text.length) % 8)) % 8));

test('columns come one after another, curve by curve', () => {
  const head = filled('{"series":[{"run":"A","name":"a","length":2},{"run":"B","name":"a","length":0},{"run":"C","name":"a","length":1}]}');
  const numbers = [1, 2, 3, NaN, 5, 6, 7, 8, 9, 10, 11, 12, 21, 22, 23, 24, 25, 26];
  const [first, empty, last] = readColumns(written(head, numbers));
  assert.deepEqual([[...first!.x], [...first!.min], [...first!.max]], [[1, 2], [3, NaN], [5, 6]]);
  assert.deepEqual([[...first!.mean], [...first!.count], [...first!.bad]], [[7, 8], [9, 10], [11, 12]]);
  assert.deepEqual([empty!.run, empty!.x.length], ['B', 0]);
  assert.deepEqual([last!.run, ...last!.x, ...last!.min, ...last!.max, ...last!.mean, ...last!.count, ...last!.bad], ['C', 21, 22, 23, 24, 25, 26]);
});

test('an answer without curves has none', () => {
  assert.deepEqual(readColumns(written(filled('{"series":[]}'), [])), []);
});

test('an answer that ends too early is an error and no curve', () => {
  const whole = written(filled('{"series":[{"run":"A","name":"a","length":9}]}'), [1, 2, 3]);
  assert.throws(() => readColumns(whole), RangeError);
});
