// From a JSON schema to what a form shows. Pure: a schema in, fields out.
import type { Json, Schema } from './types.ts';

export type FieldKind = 'group' | 'integer' | 'number' | 'text' | 'truth' | 'choice' | 'json' | 'union';

export interface Field {
  kind: FieldKind;
  path: string[];
  help: string;
  isOptional: boolean; // null is a value of its own
  limits: string; // "≥ 0, < 1"
  choices: Json[];
  fields: Field[]; // of a group
  variants: Field[]; // of a union
}

export const SCRIPTED = ['cleanrl', 'script']; // kinds whose settings are those of the script that is named above the form

/** The setting that names a checkpoint to begin with; "" for kinds that have none. */
export const beginsWith = (kind: string) => (kind === 'native' ? 'initial_weights' : SCRIPTED.includes(kind) ? 'start_from' : '');

const DEEPEST = 12; // a schema that refers to itself ends here, as JSON

export function readForm(schema: Schema): Field {
  return readField(schema, schema, [], DEEPEST);
}

function readField(root: Schema, raw: Schema, path: string[], depth: number): Field {
  const schema = resolve(root, raw);
  const parts = (schema.anyOf ?? schema.oneOf ?? [schema]).map((part) => resolve(root, part));
  const types = (part: Schema) => [part.type ?? []].flat();
  const known = parts.filter((part) => !(part.type === 'null' || part.const === null));
  const isOptional = known.length < parts.length || parts.some((part) => types(part).includes('null'));
  const help = schema.description ?? known[0]?.description ?? '';
  const about = { path, help, isOptional };
  if (known.length > 1 && !known.every(choicesOf)) {
    const variants = known.map((part) => readField(root, part, path, depth - 1));
    return { ...blank('union'), ...about, variants };
  }
  const only = known.length === 1 ? known[0]! : {};
  const choices = known.flatMap((part) => choicesOf(part) ?? []);
  if (choices.length > 0) return { ...blank('choice'), ...about, choices };
  if (only.properties && depth > 0) {
    const fields = Object.entries(only.properties).map(([name, inner]) => readField(root, inner, [...path, name], depth - 1));
    return { ...blank('group'), ...about, fields };
  }
  return { ...blank(leafKind(types(only).find((type) => type !== 'null'))), ...about, limits: limitsOf(only) };
}

function blank(kind: FieldKind): Field {
  return { kind, path: [], help: '', isOptional: false, limits: '', choices: [], fields: [], variants: [] };
}

/** What stands beside a reference, such as the help of this very place, wins over what it refers to. */
function resolve(root: Schema, schema: Schema): Schema {
  const { $ref, allOf, ...beside } = schema;
  if (allOf?.length === 1) return { ...resolve(root, allOf[0]!), ...beside };
  const found = $ref?.startsWith('#/$defs/') ? root.$defs?.[$ref.slice('#/$defs/'.length)] : undefined;
  return found ? { ...resolve(root, found), ...beside } : schema;
}

function choicesOf(schema: Schema): Json[] | null {
  if (schema.enum) return schema.enum;
  return schema.const !== undefined ? [schema.const] : null;
}

function leafKind(type: string | undefined): FieldKind {
  const kinds: Record<string, FieldKind> = { integer: 'integer', number: 'number', string: 'text', boolean: 'truth' };
  return kinds[type ?? ''] ?? 'json';
}

function limitsOf(schema: Schema): string {
  const signs = [['≥', schema.minimum], ['>', schema.exclusiveMinimum], ['≤', schema.maximum], ['<', schema.exclusiveMaximum]] as const;
  return signs.flatMap(([sign, limit]) => (limit === undefined ? [] : [`${sign} ${limit}`])).join(', ');
}

/** Which variant of a union a value belongs to; the first when none does. */
export function variantOf(field: Field, value: Json | undefined): number {
  const index = field.variants.findIndex((variant) => fits(variant, value));
  return Math.max(0, index);
}

function fits(field: Field, value: Json | undefined): boolean {
  if (field.kind === 'choice') return field.choices.includes(value ?? null);
  if (field.kind === 'truth') return typeof value === 'boolean';
  if (field.kind === 'text') return typeof value === 'string';
  if (field.kind === 'integer') return Number.isInteger(value);
  if (field.kind === 'number') return typeof value === 'number';
  if (field.kind !== 'group') return typeof value === 'object' && value !== null;
  return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).every((key) => field.fields.some((one) => one.path.at(-1) === key));
}

/** What was typed as the value that is sent: "1e6" is a number, nothing is null where null may be, the rest is said back. */
export function parseNumber(text: string, isOptional: boolean): Json {
  const word = text.trim().replaceAll('_', '');
  if (word === '') return isOptional ? null : '';
  const value = Number(word);
  return Number.isFinite(value) ? value : text;
}

/** The form of one algorithm: of the groups that are called like choices of `algorithm`, only the chosen one is shown. */
export function formOfAlgorithm(root: Field, algorithm: Json | undefined): Field {
  const choices = root.fields.find((field) => field.path.join('.') === 'algorithm')?.choices ?? [];
  const isShown = (field: Field) => field.kind !== 'group' || !choices.includes(field.path[0]!) || field.path[0] === algorithm;
  return { ...root, fields: root.fields.filter(isShown) };
}

/** Fields whose key or help has every word of the search; groups that keep at least one. */
export function filterFields(field: Field, search: string): Field | null {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return field;
  const text = `${field.path.join('.')} ${field.help}`.toLowerCase();
  if (field.kind !== 'group') return words.every((word) => text.includes(word)) ? field : null;
  const fields = field.fields.flatMap((inner) => filterFields(inner, search) ?? []);
  return fields.length > 0 ? { ...field, fields } : null;
}
