import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readWorld } from '../src/arena/message.ts';
import { readFrame } from '../src/live/frame.ts';
import { columnsFor, lastPage, ordered, slotsOf } from '../src/live/layout.ts';
import { tileLine } from '../src/live/connection_states.ts';

/** A message as docs/live.md draws it. */
function message(change: (view: DataView) => void = () => undefined, size = 66): ArrayBuffer {
  const data = new ArrayBuffer(size);
  const view = new DataView(data);
  [0x50, 0x46, 1, 1].forEach((byte, at) => view.setUint8(at, byte));
  view.setUint16(4, 3, true);
  view.setUint16(6, 20, true);
  view.setUint16(8, 10, true);
  view.setBigUint64(16, 7n, true);
  view.setBigUint64(24, 99n, true);
  view.setBigUint64(32, 61n, true);
  view.setFloat64(40, 1.5, true);
  view.setFloat64(48, -0.25, true);
  view.setFloat64(56, NaN, true);
  change(view);
  return data;
}

test('a frame says what it is, byte by byte', () => {
  const frame = readFrame(message());
  assert.ok(typeof frame !== 'string');
  const { body, ...rest } = frame;
  assert.deepEqual(rest, { kind: 'jpeg', slot: 3, width: 20, height: 10, sequence: 7, envStep: 99, length: 61, capturedAt: 1.5, reward: -0.25, total: NaN });
  assert.equal(body.length, 2);
});

test('what is no frame is refused with a reason', () => {
  const wrong: [ArrayBuffer, string][] = [
    [new ArrayBuffer(64), 'too short'],
    [message((view) => view.setUint8(0, 0x51)), 'no frame of ours'],
    [message((view) => view.setUint8(2, 2)), 'of version 2'],
    [message((view) => view.setUint8(3, 9)), 'of an unknown kind'],
    [message((view) => view.setUint16(4, 5000, true)), 'of a slot that cannot be'],
    [message((view) => view.setUint16(6, 60000, true)), 'of a size that cannot be'],
    [message((view) => view.setUint16(8, 0, true)), 'of a size that cannot be'],
  ];
  for (const [data, why] of wrong) assert.equal(readFrame(data), why);
});

/** A map of 3 x 2 with a wall in its first cell, one altar and one agent. */
function world(): Uint8Array {
  const data = new Uint8Array(24 + 1 + 8 + 11);
  const view = new DataView(data.buffer);
  data.set([0x41, 0x52, 1, 0]);
  view.setUint32(8, 5, true);
  view.setUint32(12, 100, true);
  data.set([2, 3], 16);
  view.setUint16(18, 1, true);
  view.setUint16(20, 1, true);
  data[22] = 5;
  data[24] = 0b10000000;
  data.set([1, 2, 2, 9], 25);
  view.setInt32(29, -1, true);
  data.set([0, 1, 3, 4, 1, 6, 1, 0, 2, 0, 7], 33);
  return data;
}

test('a world is read as it was written', () => {
  assert.deepEqual(readWorld(world()), {
    step: 5,
    maxSteps: 100,
    height: 2,
    width: 3,
    walls: Uint8Array.from([1, 0, 0, 0, 0, 0]),
    stations: [{ y: 1, x: 2, kind: 2, cooldown: 9, stock: -1 }],
    agents: [{ y: 0, x: 1, facing: 3, frozen: 4, team: 1, action: 5, items: [1, 0, 2, 0, 7] }],
  });
});

test('a world that cannot be is not drawn', () => {
  for (const [at, byte] of [[0, 0], [2, 2], [3, 1], [22, 4], [16, 0], [17, 200], [25, 9], [27, 5], [35, 4], [37, 9], [38, 9], [12, 1]] as const) {
    const data = world();
    data[at] = byte;
    assert.throws(() => readWorld(data), `byte ${at} is ${byte}`);
  }
  assert.throws(() => readWorld(world().subarray(0, 40)), /40 bytes; 44/);
});

test('a page of the mosaic holds its slots and no others', () => {
  assert.deepEqual(slotsOf(0, 4, 10), [0, 1, 2, 3]);
  assert.deepEqual(slotsOf(2, 4, 10), [8, 9]);
  assert.deepEqual(slotsOf(9, 4, 10), [8, 9]);
  assert.deepEqual(slotsOf(0, 4, 0), []);
  assert.equal(lastPage(4, 8), 1);
});

test('the best stand first, the unknown last, and equal ones keep their places', () => {
  const known: Record<number, { total: number; length: number }> = { 0: { total: 1, length: 9 }, 1: { total: 5, length: 2 }, 2: { total: NaN, length: 4 }, 3: { total: 1, length: 1 } };
  assert.deepEqual(ordered([0, 1, 2, 3, 4], 'return', (slot) => known[slot]), [1, 0, 3, 2, 4]);
  assert.deepEqual(ordered([0, 1, 2, 3, 4], 'length', (slot) => known[slot]), [0, 2, 1, 3, 4]);
  assert.deepEqual(ordered([3, 1], 'number', (slot) => known[slot]), [3, 1]);
});

test('columns make tiles as large as the room allows', () => {
  assert.equal(columnsFor(1, 900, 600, 1.5, 30), 1);
  assert.equal(columnsFor(4, 1000, 1000, 1, 0), 2);
  assert.equal(columnsFor(8, 1600, 800, 1, 0), 4);
  assert.equal(columnsFor(3, 1200, 300, 1, 0), 3);
});

test('the line of a tile says reward, return and length, and a dash for what nobody keeps', () => {
  assert.equal(tileLine({ reward: 1, total: 61, length: 61 }), 'reward 1 · return 61 · length 61');
  assert.equal(tileLine({ reward: -1, total: NaN, length: 2000 }), 'reward −1 · return – · length 2,000');
});
