import assert from 'node:assert/strict';
import { test } from 'node:test';
import { leaveTurn, takeTurn } from '../src/lib/frame_scheduler.ts';

/** A browser whose pictures come when the test says so, and whose clock goes on only while somebody works. */
let now = 0;
let asked: (() => void)[] = [];
Object.assign(globalThis, { requestAnimationFrame: (draw: () => void) => asked.push(draw), performance: { now: () => now } });

async function image(): Promise<void> {
  const due = asked;
  asked = [];
  for (const draw of due) draw();
  await new Promise((done) => setImmediate(done));
}

const works = (said: string[], word: string, milliseconds: number) => () => {
  said.push(word);
  now += milliseconds;
};

test('small ones share a image, a large one has the rest of it for itself', async () => {
  const said: string[] = [];
  for (const [word, time] of [['a', 0.2], ['b', 0.2], ['c', 5], ['d', 5], ['e', 0.2]] as const) takeTurn({}, works(said, word, time));
  await image();
  assert.deepEqual(said, []); // that of whoever asked
  await image();
  assert.equal(said.join(''), 'abc');
  await image();
  assert.equal(said.join(''), 'abcd');
  await image();
  assert.equal(said.join(''), 'abcde');
  assert.equal(asked.length, 0); // nobody waits: no image is asked for
});

test('the newest word counts, and who leaves is forgotten', async () => {
  const said: string[] = [];
  const [one, other] = [{}, {}];
  takeTurn(one, works(said, 'old', 0));
  takeTurn(other, works(said, 'gone', 0));
  takeTurn(one, works(said, 'new', 0));
  leaveTurn(other);
  await image();
  await image();
  assert.deepEqual(said, ['new']);
});

test('what is asked for during a turn has one of its own', async () => {
  const said: string[] = [];
  const me = {};
  takeTurn(me, () => {
    works(said, 'first', 5)();
    takeTurn(me, works(said, 'second', 5));
  });
  await image();
  await image();
  assert.deepEqual(said, ['first']);
  await image();
  assert.deepEqual(said, ['first', 'second']);
});
