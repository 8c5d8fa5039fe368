// Nested settings as dotted keys, and how they differ.
import type { Json } from './types.ts';

export type Nested = { [key: string]: Json };

export function isGroup(value: Json | undefined): value is Nested {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** "ppo.gamma" → 0.99; an empty group stays as it is. */
export function flatten(config: Nested, prefix = ''): Map<string, Json> {
  const found = new Map<string, Json>();
  for (const [key, value] of Object.entries(config)) {
    if (isGroup(value) && Object.keys(value).length > 0) {
      for (const [inner, leaf] of flatten(value, `${prefix}${key}.`)) found.set(inner, leaf);
    } else found.set(prefix + key, value);
  }
  return found;
}

/** The key by which a setting was asked for: a script's arguments have their bare names there, and "settings." before them in its config. */
export function requestKey(asked: ReadonlyMap<string, Json>, key: string): string {
  return asked.has(key) ? key : key.replace(/^settings\./, '');
}

export function isSame(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) return one.length === other.length && one.every((value, place) => isSame(value, other[place]));
  if (!isGroup(one) || !isGroup(other)) return false;
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...keys].every((key) => isSame(one[key], other[key]));
}

export interface DifferingKey {
  key: string;
  values: (Json | undefined)[]; // one for each config; undefined: it has no such key
}

/** Only the keys in which the configs are not all alike. */
export function differingKeys(configs: readonly Nested[]): DifferingKey[] {
  const flat = configs.map((config) => flatten(config));
  const keys = [...new Set(flat.flatMap((one) => [...one.keys()]))];
  return keys
    .map((key) => ({ key, values: flat.map((one) => one.get(key)) }))
    .filter(({ values }) => values.some((value) => !isSame(value, values[0])));
}

/** `changes` laid over `base`, group by group; neither is touched. */
export function layOver(base: Nested, changes: Nested): Nested {
  const merged: Nested = { ...base };
  for (const [key, value] of Object.entries(changes)) {
    const existing = merged[key];
    merged[key] = isGroup(value) && isGroup(existing) ? layOver(existing, value) : value;
  }
  return merged;
}

/** The smallest changes that make `wanted` of `base`; what `wanted` does not name stays as it is. */
export function changesTo(base: Nested, wanted: Nested): Nested {
  const found: Nested = {};
  for (const [key, value] of Object.entries(wanted)) {
    const existing = base[key];
    if (isGroup(value) && isGroup(existing)) {
      const inner = changesTo(existing, value);
      if (Object.keys(inner).length > 0) found[key] = inner;
    } else if (!(key in base) || !isSame(value, existing)) found[key] = value;
  }
  return found;
}
