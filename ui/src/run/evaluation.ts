// An evaluation run as its page shows it: which checkpoint it evaluates, and its batches as a curve. Pure.
import type { Curve } from '../lib/curves.ts';
import type { LineStyle } from '../lib/palette.ts';
import type { Batch, Run, RunDetail } from '../lib/types.ts';

export const isEvaluation = (run: Run) => run.kind === 'evaluate';

export interface Target {
  run: string; // id
  selector: string; // best, latest or an epoch
}

/** The checkpoint that an evaluation run evaluates; null when it lies outside of this daemon's runs. */
export function targetOf(detail: RunDetail | null): Target | null {
  const match = /^([0-9A-HJKMNP-TV-Z]{26}):(\w+)$/.exec(String(detail?.config?.['target'] ?? ''));
  return match ? { run: match[1]!, selector: match[2]! } : null;
}

/** Mean return by batch, in a band from the lowest to the highest episode. */
export function batchCurve(batches: readonly Batch[], style: LineStyle): Curve {
  const column = (value: (batch: Batch) => number | string | null) => Float64Array.from(batches, (batch) => Number(value(batch) ?? NaN));
  const mean = column((batch) => batch.avg);
  return {
    id: 'batches', label: 'mean return', style,
    x: column((batch) => batch.batch), low: column((batch) => batch.min), high: column((batch) => batch.max),
    mean, line: mean, bad: new Float64Array(0),
  };
}

/** Files of the evaluated run that this evaluation recorded: those written while it ran. */
export function recordedBy<T extends { created_at: number }>(run: Run, files: readonly T[]): T[] {
  const [start, end] = [run.started_at ?? Infinity, run.ended_at ?? Infinity];
  return files.filter((file) => file.created_at >= start && file.created_at <= end + 1);
}
