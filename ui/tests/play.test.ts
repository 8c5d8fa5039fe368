import assert from 'node:assert/strict';
import { test } from 'node:test';
import { uploadBody } from '../src/play/inspect.ts';
import { keyboardFor, keysOf } from '../src/play/keys.ts';
import { changed, read, write } from '../src/play/settings.ts';

test('Arena is played with arrows, letters and digits', () => {
  const keyboard = keyboardFor('palaestra/Arena-v0', 6);
  assert.deepEqual(['ArrowUp', 'd', 's', 'ArrowLeft', ' ', '.', '5'].map((key) => keyboard.keys[key]), [1, 2, 3, 4, 5, 0, 5]);
  assert.deepEqual(keysOf(keyboard, 1).slice(0, 2), ['↑', 'w']);
});

test('an unknown environment is played with digits, and no key does what it has not', () => {
  const keyboard = keyboardFor('Strange-v3', 3);
  assert.deepEqual(keyboard.keys, { 0: 0, 1: 1, 2: 2 });
  assert.deepEqual(keyboard.names, ['action 0', 'action 1', 'action 2']);
  assert.equal(keyboardFor('CartPole-v1', 1).keys['ArrowRight'], undefined);
});

test('while no key is held a car rests, where resting is an action', () => {
  assert.equal(keyboardFor('MountainCar-v0', 3).idle, 1);
});

test('settings are written and read back', () => {
  const settings = { agents: 24, name: 'x y', share: 0.5, flags: [1, null], deep: { on: true } };
  assert.deepEqual(read(write(settings)), settings);
  assert.deepEqual(read('map_name: 8x8\n\n is_slippery = false'), { map_name: '8x8', is_slippery: false });
});

test('a line that is no setting is named', () => {
  assert.match(String(read('a: 1\nnonsense')), /Line 2/);
  assert.match(String(read('a: 1\na: 2')), /Line 2 repeats a/);
  assert.match(String(read('a: {"b"')), /Line 1/);
});

test('only what is other than before is sent', () => {
  assert.deepEqual(changed({ a: 1, b: [1], c: null }, { a: 1, b: [2], c: null, d: 0 }), { b: [2], d: 0 });
});

test('a checkpoint is a zip, or a sidecar and its weights in this order', async () => {
  const files = (...names: string[]) => names.map((name) => new File([name], name));
  const both = uploadBody(files('model_0001.safetensors', 'model_0001.yaml'));
  assert.ok(typeof both !== 'string');
  assert.equal(await both.body.text(), 'model_0001.yamlmodel_0001.safetensors');
  const zip = uploadBody(files('a.zip'));
  assert.ok(typeof zip !== 'string' && zip.type === 'application/zip');
  assert.match(String(uploadBody(files('agent.pt'))), /Pickled/);
  assert.match(String(uploadBody(files('a.yaml'))), /together/);
});
