// Schemes that were found, as the daemon tells them. Ranks over different fields are never compared with each other.
import { get } from '../lib/http.ts';
import type { FoundScheme, SchemeDetail, SchemeList } from '../lib/types.ts';

export const catalogue = (format: string) => get<SchemeList>('/api/discoveries', { format });
export const detail = (id: string) => get<SchemeDetail>(`/api/discoveries/${encodeURIComponent(id)}`);

/** By format, in the order of the daemon; a format is shown whether or not anything was found for it. */
export function byFormat(found: readonly FoundScheme[]): [string, FoundScheme[]][] {
  const groups = new Map<string, FoundScheme[]>();
  for (const one of found) groups.set(one.format, [...(groups.get(one.format) ?? []), one]);
  return [...groups];
}

/** Schemes over one field; all without a field. */
export const overField = (found: readonly FoundScheme[], field: string) => found.filter((one) => !field || one.field === field);

export const STYLES = {
  matches: { icon: 'check', tone: 'good', words: () => 'matches the best known' },
  above: { icon: 'up', tone: 'soft', words: (by: number) => `${by} above the best known` },
  below: { icon: 'down', tone: 'warn', words: (by: number) => `${by} below the best known: look at it twice` },
  unknown: { icon: 'unknown', tone: 'soft', words: () => 'no rank is known' },
} as const;

export function standing(one: Pick<FoundScheme, 'rank' | 'known' | 'comparison'>) {
  const look = STYLES[one.comparison] ?? STYLES.unknown;
  return { ...look, text: look.words(Math.abs(one.rank - (one.known ?? one.rank))) };
}
