// Schemes that were found, as the daemon tells them. Ranks over different fields are never compared with each other.
import { get } from '../lib/http.ts';

export type Comparison = 'matches' | 'above' | 'below' | 'unknown';

export interface Summary {
  id: string;
  format: string; // "3x3x3"
  field: string;
  field_meaning: string;
  rank: number;
  naive_rank: number;
  known: number | null; // the best known rank over the same field
  comparison: Comparison;
  additions_naive: number;
  additions_eliminated: number;
  additions_known: number | null;
  largest_coefficient: number;
  fingerprint: string;
  canonical: string; // empty: too many symmetries of its own
  run: string; // "": it was brought in
  method: string;
  seed: number | null;
  step: number | null;
  wall_seconds: number | null;
  cpu_seconds: number | null;
  found_at: number | null;
  verdict: string;
  parents: string[];
  benchmark_count: number;
  file: string;
}

export interface Measured {
  dtype: string;
  size: number;
  levels: number;
  seconds: number;
  baseline_seconds: number;
  baseline: string;
  gain: number;
  error: number | null;
  exact: boolean;
  verdict: string;
}

export interface Benchmark {
  id: string;
  made_at: number | null;
  hardware: string;
  threads: number;
  rows: Measured[];
}

export interface Detail extends Summary {
  formulas: string[];
  straight_line: string[];
  code: string;
  machine: { [key: string]: unknown };
  benchmarks: Benchmark[];
}

export type Known = { format: string; naive: number; additions?: number | null } & { [field: string]: number | string | null | undefined };

export interface Catalogue {
  known_as_of: string;
  known: Known[];
  discoveries: Summary[];
  damaged: string[];
}

export const catalogue = (format: string) => get<Catalogue>('/api/discoveries', { format });
export const detail = (id: string) => get<Detail>(`/api/discoveries/${encodeURIComponent(id)}`);

/** By format, in the order of the daemon; a format is shown whether or not anything was found for it. */
export function byFormat(found: readonly Summary[]): [string, Summary[]][] {
  const groups = new Map<string, Summary[]>();
  for (const one of found) groups.set(one.format, [...(groups.get(one.format) ?? []), one]);
  return [...groups];
}

export const LOOKS = {
  matches: { icon: 'check', tone: 'good', words: () => 'matches the best known' },
  above: { icon: 'up', tone: 'soft', words: (by: number) => `${by} above the best known` },
  below: { icon: 'down', tone: 'warn', words: (by: number) => `${by} below the best known: look at it twice` },
  unknown: { icon: 'unknown', tone: 'soft', words: () => 'no rank is known' },
} as const;

export function standing(one: Pick<Summary, 'rank' | 'known' | 'comparison'>) {
  const look = LOOKS[one.comparison] ?? LOOKS.unknown;
  return { ...look, text: look.words(Math.abs(one.rank - (one.known ?? one.rank))) };
}
