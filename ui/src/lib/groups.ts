// Runs that differ in their seed only, told as one: mean, and how far the seeds are apart.
import type { Run } from './types.ts';

export interface Spread {
  mean: number;
  low: number;
  high: number;
  count: number;
}

export interface ComparedGroup {
  key: string;
  runs: Run[]; // never empty, in the order they came
}

/** In the order in which each group's first run comes; a run without a group stands alone. */
export function groupRuns(runs: readonly Run[]): ComparedGroup[] {
  const groups = new Map<string, ComparedGroup>();
  for (const run of runs) {
    const key = run.group || run.id;
    const group = groups.get(key);
    if (group) group.runs.push(run);
    else groups.set(key, { key, runs: [run] });
  }
  return [...groups.values()];
}

/** Of the values that are there; null when there is none. */
export function spreadOf(values: readonly (number | null | undefined)[]): Spread | null {
  const known = values.filter((value): value is number => typeof value === 'number' && Number.isFinite(value));
  if (known.length === 0) return null;
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return { mean, low: Math.min(...known), high: Math.max(...known), count: known.length };
}

/** Runs of one seed are not several seeds. */
export function seedText(runCount: number, seedCount: number): string {
  const seeds = `${seedCount.toLocaleString('en-US')} ${seedCount === 1 ? 'seed' : 'seeds'}`;
  if (seedCount === runCount) return seeds;
  const runs = `${runCount.toLocaleString('en-US')} ${runCount === 1 ? 'run' : 'runs'}`;
  return seedCount === 0 ? runs : `${runs} of ${seeds}`;
}

export function seedCount(runs: readonly Run[]): number {
  return new Set(runs.flatMap((run) => (run.seed === null ? [] : [run.seed]))).size;
}

/** A group's name: what its members' names begin with, else the recipe. */
export function groupName(group: ComparedGroup): string {
  const [first] = group.runs;
  if (!first) return '';
  const start = group.runs.reduce((common, run) => sharedStart(common, run.name), first.name).replace(/[-_. \d]+$/, '');
  return start.length >= 3 ? start : first.recipe || first.env || first.name;
}

function sharedStart(one: string, other: string): string {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return one.slice(0, length);
}
