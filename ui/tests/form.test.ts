import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changesTo, differingKeys, flatten, layOver, type Nested } from '../src/lib/flat.ts';
import { beginsWith, filterFields, formOfAlgorithm, parseNumber, readForm, variantOf } from '../src/lib/form_model.ts';
import { leftOut, valueAt, without, withValue } from '../src/lib/form_values.ts';
import type { Schema } from '../src/lib/types.ts';

const schema: Schema = {
  type: 'object',
  $defs: {
    Schedule: { type: 'object', description: 'of the class', properties: { start: { type: 'number', minimum: 0 }, kind: { enum: ['constant', 'linear'], default: 'constant' } } },
    Loop: { type: 'object', properties: { again: { $ref: '#/$defs/Loop' } } },
  },
  properties: {
    steps: { type: 'integer', minimum: 1, description: 'how long' },
    rate: { $ref: '#/$defs/Schedule', description: 'of this place' },
    kl: { anyOf: [{ type: 'number', exclusiveMinimum: 0 }, { type: 'null' }], default: null },
    fast: { type: 'boolean' },
    where: { anyOf: [{ type: 'string' }, { type: 'integer' }, { type: 'null' }] },
    kwargs: { type: 'object', additionalProperties: true },
    loop: { $ref: '#/$defs/Loop' },
    old: { allOf: [{ $ref: '#/$defs/Schedule' }] },
    pair: { type: ['string', 'null'] },
  },
};
const fields = Object.fromEntries(readForm(schema).fields.map((field) => [field.path.join('.'), field]));

test('every kind of schema becomes the field it should', () => {
  const kinds = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.kind]));
  assert.deepEqual(kinds, { steps: 'integer', rate: 'group', kl: 'number', fast: 'truth', where: 'union', kwargs: 'json', loop: 'group', old: 'group', pair: 'text' });
});

test('ranges, help, null and choices reach the field', () => {
  assert.equal(fields['steps']!.limits, '≥ 1');
  assert.equal(fields['kl']!.limits, '> 0');
  assert.deepEqual([fields['kl']!.isOptional, fields['pair']!.isOptional, fields['fast']!.isOptional], [true, true, false]);
  assert.equal(fields['rate']!.help, 'of this place');
  assert.deepEqual(fields['rate']!.fields[1]!.choices, ['constant', 'linear']);
  assert.deepEqual(fields['rate']!.fields[0]!.path, ['rate', 'start']);
});

test('a schema that refers to itself comes to an end', () => {
  let [depth, field] = [0, fields['loop']];
  while (field?.fields[0]) [depth, field] = [depth + 1, field.fields[0]];
  assert.ok(depth < 20);
  assert.equal(field?.kind, 'json');
});

test('a union shows the variant that the value belongs to', () => {
  const where = fields['where']!;
  assert.equal(where.isOptional, true);
  assert.deepEqual(where.variants.map((variant) => variant.kind), ['text', 'integer']);
  assert.equal(variantOf(where, 'here'), 0);
  assert.equal(variantOf(where, 3), 1);
  assert.equal(variantOf(where, null), 0);
});

test('what is typed is the number that was meant, nothing is null only where null may be', () => {
  assert.equal(parseNumber('1e6', false), 1_000_000);
  assert.equal(parseNumber('100_000', false), 100_000);
  assert.equal(parseNumber('0', true), 0);
  assert.equal(parseNumber(' ', true), null);
  assert.equal(parseNumber('', false), '');
  assert.equal(parseNumber('0.5.', false), '0.5.');
  assert.equal(parseNumber('Infinity', false), 'Infinity');
});

const defaults: Nested = { steps: 10, kl: null, fast: true, rate: { start: 0.1, kind: 'constant' } };

test('an untouched form sends nothing', () => {
  assert.deepEqual(changesTo(defaults, defaults), {});
});

test('false is sent, null is sent, and zero is not null', () => {
  let changes = withValue({}, defaults, ['fast'], false);
  changes = withValue(changes, defaults, ['kl'], 0);
  assert.deepEqual(changes, { fast: false, kl: 0 });
  assert.deepEqual(withValue({}, { kl: 0.02 }, ['kl'], null), { kl: null });
});

test('a field set back to its default is as if never touched', () => {
  const changed = withValue({}, defaults, ['rate', 'start'], 0.3);
  assert.deepEqual(changed, { rate: { start: 0.3 } });
  assert.deepEqual(withValue(changed, defaults, ['rate', 'start'], 0.1), {});
  assert.deepEqual(without({ rate: { start: 1, kind: 'linear' } }, ['rate', 'start']), { rate: { kind: 'linear' } });
});

test('neither defaults nor changes are touched by a change', () => {
  const changes: Nested = { rate: { start: 0.3 } };
  withValue(changes, defaults, ['rate', 'kind'], 'linear');
  assert.deepEqual(changes, { rate: { start: 0.3 } });
});

test('names of JavaScript itself are names like any other', () => {
  assert.equal(valueAt({}, ['constructor']), undefined);
  assert.equal(valueAt({}, ['__proto__', 'polluted']), undefined);
});

test('changes laid over the base give what was wanted', () => {
  const wanted: Nested = { steps: 10, kl: 0.02, fast: false, rate: { start: 0.1, kind: 'linear' } };
  const changes = changesTo(defaults, wanted);
  assert.deepEqual(changes, { kl: 0.02, fast: false, rate: { kind: 'linear' } });
  assert.deepEqual(layOver(defaults, changes), wanted);
});

test('an unknown key is passed on, so that the daemon can say what it should have been', () => {
  assert.deepEqual(changesTo(defaults, { ...defaults, stepz: 3 }), { stepz: 3 });
});

test('a key of a dictionary that is left out is named, for laying over cannot remove it', () => {
  assert.deepEqual(leftOut({ size: 8, walls: 2 }, { size: 9 }), ['walls']);
  assert.deepEqual(leftOut({}, { size: 9 }), []);
});

test('only the settings that differ are compared, absent ones among them', () => {
  const found = differingKeys([{ a: 1, b: { c: [1, 2], d: null } }, { a: 1, b: { c: [1, 3], d: null } }, { a: 1, b: { c: [1, 2] } }]);
  assert.deepEqual(found, [
    { key: 'b.c', values: [[1, 2], [1, 3], [1, 2]] },
    { key: 'b.d', values: [null, null, undefined] },
  ]);
});

test('an empty group is a setting of its own', () => {
  assert.deepEqual([...flatten({ env: { kwargs: {}, id: 'x' } })], [['env.kwargs', {}], ['env.id', 'x']]);
});

test('searching keeps the groups of what is found', () => {
  const found = filterFields(readForm(schema), 'rate start');
  assert.deepEqual(found?.fields.map((field) => field.path.join('.')), ['rate']);
  assert.equal(filterFields(readForm(schema), 'nothing like it'), null);
});

test('a checkpoint to begin with has its setting in every kind that learns', () => {
  assert.deepEqual(['native', 'cleanrl', 'script', 'matmul'].map(beginsWith), ['initial_weights', 'start_from', 'start_from', '']);
});

test('only the section of the chosen algorithm is shown', () => {
  const section = { type: 'object', properties: { gamma: { type: 'number' } } } as const;
  const form = readForm({ type: 'object', properties: { algorithm: { enum: ['ppo', 'dqn'] }, ppo: section, dqn: section, env: section } });
  const names = (algorithm: string) => formOfAlgorithm(form, algorithm).fields.map((field) => field.path[0]);
  assert.deepEqual(names('dqn'), ['algorithm', 'dqn', 'env']);
  assert.deepEqual(names('ppo'), ['algorithm', 'ppo', 'env']);
  assert.deepEqual(formOfAlgorithm(readForm(schema), undefined).fields.length, readForm(schema).fields.length);
});
