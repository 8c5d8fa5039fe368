// What a chart draws, made from what the daemon says: pure, so that tests can ask it anything.
import { groupName, groupRuns, type RunGroup } from './groups.ts';
import type { Look } from './palette.ts';
import { reachOf, smooth } from './smoothing.ts';
import type { Axis, Run, Series } from './types.ts';

export interface Curve {
  id: string;
  label: string;
  look: Look;
  x: number[];
  low: (number | null)[]; // the band: lowest and highest that was measured
  high: (number | null)[];
  mean: (number | null)[];
  line: (number | null)[]; // what is drawn strongly: the mean, smoothed
  bad: number[]; // x where something was not a number
}

export interface CurveOptions {
  axis: Axis;
  smoothing: number; // 0..1
  span: number; // of the whole axis, for the smoothing
  lookOf: (place: number) => Look;
}

/** Seconds since the run began, or steps. */
export function originOf(run: Run, axis: Axis): number {
  return axis === 'time' ? (run.started_at ?? run.created_at) : 0;
}

export function curvesOf(runs: readonly Run[], series: readonly Series[], options: CurveOptions): Curve[] {
  const known = new Map(series.map((one) => [one.run, one]));
  return runs.flatMap((run, place) => {
    const found = known.get(run.id);
    return found ? [curveOf(run, found, options, options.lookOf(place))] : [];
  });
}

function curveOf(run: Run, series: Series, options: CurveOptions, look: Look): Curve {
  const origin = originOf(run, options.axis);
  const x = origin === 0 ? series.x : series.x.map((value) => value - origin);
  const line = smooth(x, series.mean, series.count, reachOf(options.smoothing, options.span));
  const bad = x.filter((_, place) => (series.bad?.[place] ?? 0) > 0);
  return { id: run.id, label: run.name, look, x, low: series.min, high: series.max, mean: series.mean, line, bad };
}

const GRID = 400; // points of a mean over seeds

/** One curve for each group of seeds: their mean, and the band from the lowest to the highest of them. */
export function groupedCurves(runs: readonly Run[], series: readonly Series[], options: CurveOptions): Curve[] {
  return groupRuns(runs).map((group, place) => {
    const look = options.lookOf(place);
    const members = curvesOf(group.runs, series, { ...options, lookOf: () => look });
    return meanCurve(group, members.filter((curve) => curve.x.length > 0), look);
  });
}

/** Only where every seed has something to say: elsewhere the mean would jump as seeds come and go. */
function meanCurve(group: RunGroup, members: readonly Curve[], look: Look): Curve {
  const [start, end] = [Math.max(...members.map((one) => one.x[0]!)), Math.min(...members.map((one) => one.x.at(-1)!))];
  const label = group.runs.length > 1 ? `${groupName(group)} (${members.length} seeds)` : group.runs[0]!.name;
  const curve: Curve = { id: group.key, label, look, x: [], low: [], high: [], mean: [], line: [], bad: [] };
  if (members.length === 0 || end < start) return curve;
  if (members.length === 1) return { ...members[0]!, label, id: group.key };
  for (let place = 0; place < GRID; place++) {
    const x = start + ((end - start) * place) / (GRID - 1);
    const values = members.map((one) => valueAt(one.x, one.line, x)).filter((value) => value !== null);
    const mean = values.length === members.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
    curve.x.push(x);
    curve.low.push(mean === null ? null : Math.min(...values));
    curve.high.push(mean === null ? null : Math.max(...values));
    curve.mean.push(mean);
    curve.line.push(mean);
  }
  return curve;
}

/** Between two points, on the line between them; null outside. */
export function valueAt(x: readonly number[], values: readonly (number | null)[], at: number): number | null {
  const after = firstAtOrAfter(x, at);
  if (after >= x.length) return null;
  const [right, high] = [x[after]!, values[after] ?? null];
  if (right === at || after === 0) return right === at ? high : null;
  const [left, low] = [x[after - 1]!, values[after - 1] ?? null];
  if (low === null || high === null) return null;
  return low + ((high - low) * (at - left)) / (right - left);
}

/** By halving; x rises. */
export function firstAtOrAfter(x: readonly number[], at: number): number {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function nearest(x: readonly number[], at: number): number {
  const after = firstAtOrAfter(x, at);
  if (after === 0) return 0;
  if (after >= x.length) return x.length - 1;
  return x[after]! - at < at - x[after - 1]! ? after : after - 1;
}

export type Range = readonly [number, number];

export function extentX(curves: readonly Curve[]): Range | null {
  const filled = curves.filter((curve) => curve.x.length > 0);
  if (filled.length === 0) return null;
  return [Math.min(...filled.map((curve) => curve.x[0]!)), Math.max(...filled.map((curve) => curve.x.at(-1)!))];
}

/** Of everything drawn between two x: bands are in it, so no spike is cut off. On a log axis only what is above 0. */
export function extentY(curves: readonly Curve[], range: Range, isLog: boolean): Range | null {
  let [low, high] = [Infinity, -Infinity];
  for (const curve of curves) {
    const end = firstAtOrAfter(curve.x, range[1]);
    for (let place = Math.max(0, firstAtOrAfter(curve.x, range[0]) - 1); place <= end && place < curve.x.length; place++) {
      for (const value of [curve.low[place], curve.high[place], curve.line[place]]) {
        if (typeof value !== 'number' || (isLog && value <= 0)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
  }
  return low <= high ? [low, high] : null;
}

/** A little air above and below; a flat line stands in the middle. */
export function padded([low, high]: Range, isLog: boolean): Range {
  if (isLog) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.05, high * (high / low) ** 0.05];
  const air = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.06;
  return [low - air, high + air];
}
