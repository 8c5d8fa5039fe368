// What a chart draws, made from what the daemon says: pure, so that tests can ask it anything.
import { groupName, groupRuns, seedCount, seedText, type ComparedGroup } from './groups.ts';
import type { Columns } from './columns.ts';
import type { LineStyle } from './palette.ts';
import { reachOf, smooth } from './smoothing.ts';
import type { Run } from './types.ts';

/** All columns are of one length; NaN: nothing is known there. */
export interface Curve {
  id: string;
  label: string;
  style: LineStyle;
  x: Float64Array;
  low: Float64Array; // the band: lowest and highest that was measured
  high: Float64Array;
  mean: Float64Array;
  line: Float64Array; // what is drawn strongly: the mean, smoothed
  bad: Float64Array; // x where something was not a number
}

export interface CurveOptions {
  smoothing: number; // 0..1
  span: number; // of the whole axis, for the smoothing
  lineStyleOf: (index: number) => LineStyle;
}

export function curvesOf(runs: readonly Run[], series: readonly Columns[], options: CurveOptions): Curve[] {
  const known = new Map(series.map((one) => [one.run, one]));
  const length = runs.reduce((sum, run) => sum + (known.get(run.id)?.x.length ?? 0), 0);
  const lines = new Float64Array(length); // one piece of memory for all of them
  let end = 0;
  return runs.flatMap((run, index) => {
    const found = known.get(run.id);
    return found ? [curveOf(run, found, options, options.lineStyleOf(index), lines.subarray(end, (end += found.x.length)))] : [];
  });
}

const NOWHERE = new Float64Array(0);

function curveOf(run: Run, series: Columns, options: CurveOptions, style: LineStyle, room: Float64Array): Curve {
  const { x } = series;
  const line = smooth(x, series.mean, series.count, reachOf(options.smoothing, options.span), room);
  const bad = series.bad.some((count) => count > 0) ? x.filter((_, index) => series.bad[index]! > 0) : NOWHERE;
  const isSingle = series.count.every((count) => count <= 1); // then there is no band, and painters see that it is none
  const [low, high] = isSingle ? [series.mean, series.mean] : [series.min, series.max];
  return { id: run.id, label: run.name, style, x, low, high, mean: series.mean, line, bad };
}

const GRID = 400; // points of a mean over seeds

/** One curve for each group of seeds: their mean, and the band from the lowest to the highest of them. */
export function groupedCurves(runs: readonly Run[], series: readonly Columns[], options: CurveOptions): Curve[] {
  return groupRuns(runs).map((group, index) => {
    const style = options.lineStyleOf(index);
    const members = curvesOf(group.runs, series, { ...options, lineStyleOf: () => style });
    return meanCurve(group, members.filter((curve) => curve.x.length > 0), style);
  });
}

/** Only where every seed has something to say: elsewhere the mean would jump as seeds come and go. */
function meanCurve(group: ComparedGroup, members: readonly Curve[], style: LineStyle): Curve {
  const [start, end] = [Math.max(...members.map((one) => one.x[0]!)), Math.min(...members.map((one) => one.x.at(-1)!))];
  const known = new Set(members.map((one) => one.id));
  const shown = group.runs.filter((run) => known.has(run.id));
  const label = group.runs.length > 1 ? `${groupName(group)} (${seedText(shown.length, seedCount(shown))})` : group.runs[0]!.name;
  if (members.length === 1) return { ...members[0]!, label, id: group.key };
  const length = members.length === 0 || end < start ? 0 : GRID;
  const [x, low, high, mean] = [new Float64Array(length), new Float64Array(length), new Float64Array(length), new Float64Array(length)];
  for (let index = 0; index < length; index++) {
    const at = start + ((end - start) * index) / (GRID - 1);
    const values = members.map((one) => valueAt(one.x, one.line, at));
    x[index] = at;
    low[index] = Math.min(...values); // NaN, if one of them is
    high[index] = Math.max(...values);
    mean[index] = values.reduce((sum, value) => sum + value, 0) / values.length;
  }
  return { id: group.key, label, style, x, low, high, mean, line: mean, bad: new Float64Array(0) };
}

/** Between two points, on the line between them; NaN outside. */
export function valueAt(x: Float64Array, values: Float64Array, at: number): number {
  const after = firstAtOrAfter(x, at);
  if (after >= x.length) return NaN;
  const [right, high] = [x[after]!, values[after]!];
  if (right === at || after === 0) return right === at ? high : NaN;
  const [left, low] = [x[after - 1]!, values[after - 1]!];
  return low + ((high - low) * (at - left)) / (right - left);
}

/** By halving; x rises. */
export function firstAtOrAfter(x: Float64Array, at: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function nearest(x: Float64Array, at: number): number {
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
    for (let index = Math.max(0, firstAtOrAfter(curve.x, range[0]) - 1); index <= end && index < curve.x.length; index++) {
      see(curve.low[index]!);
      see(curve.high[index]!);
      see(curve.line[index]!);
    }
  }
  return low <= high ? [low, high] : null;

  function see(value: number): void {
    if (isLog && value <= 0) return; // NaN is neither lower nor higher
    if (value < low) low = value;
    if (value > high) high = value;
  }
}

const FLAT = 1e-9; // share of a value below which a difference is one of rounding, not of what was measured

/** A little air above and below; a flat line stands in the middle. */
export function padded(range: Range, isLog: boolean): Range {
  let [low, high] = range;
  if (high - low <= FLAT * Math.max(Math.abs(low), Math.abs(high))) low = high = (low + high) / 2;
  if (isLog) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.05, high * (high / low) ** 0.05];
  const air = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.06;
  return [low - air, high + air];
}
