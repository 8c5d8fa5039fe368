// What was changed in a form, as nested settings: nothing touched is nothing sent.
import { isGroup, isSame, type Nested } from './flat.ts';
import type { Json } from './types.ts';

export function valueAt(values: Nested, path: readonly string[]): Json | undefined {
  let found: Json | undefined = values;
  for (const name of path) {
    if (!isGroup(found)) return undefined;
    found = Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return found;
}

/** Back at its default a field is as if never touched, so that the request stays as short as it can be. */
export function withValue(changes: Nested, defaults: Nested, path: readonly string[], value: Json): Nested {
  return isSame(value, valueAt(defaults, path)) ? without(changes, path) : put(changes, path, value);
}

function put(values: Nested, [name, ...rest]: readonly string[], value: Json): Nested {
  if (name === undefined) return values;
  const inner = values[name];
  return { ...values, [name]: rest.length === 0 ? value : put(isGroup(inner) ? inner : {}, rest, value) };
}

/** Groups that become empty go with it. */
export function without(values: Nested, [name, ...rest]: readonly string[]): Nested {
  if (name === undefined || !Object.hasOwn(values, name)) return values;
  const { [name]: inner, ...others } = values;
  if (rest.length === 0 || !isGroup(inner)) return others;
  const kept = without(inner, rest);
  return Object.keys(kept).length === 0 ? others : { ...others, [name]: kept };
}

/** Keys of a free dictionary that the defaults have and `wanted` leaves out: laying over cannot take them away. */
export function leftOut(defaults: Json | undefined, wanted: Json | undefined): string[] {
  if (!isGroup(defaults) || !isGroup(wanted)) return [];
  return Object.keys(defaults).filter((key) => !Object.hasOwn(wanted, key));
}
