import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flatten, requestKey } from '../src/lib/flat.ts';

test('an argument of a script is found among the settings of its config', () => {
  const asked = flatten({ script: 'ppo.py', env_id: 'CartPole-v1' });
  const config = flatten({ script: '/home/me/ppo.py', settings: { env_id: 'CartPole-v1', seed: 1 } });
  const given = [...config.keys()].filter((key) => asked.has(requestKey(asked, key)));
  assert.deepEqual(given, ['script', 'settings.env_id']);
});
