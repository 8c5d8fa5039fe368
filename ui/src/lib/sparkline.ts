// Series as paths of an SVG, min and max as a band.
import type { Series } from './types.ts';

export interface Paths {
  line: string;
  band: string;
}

interface Point {
  x: number;
  low: number;
  mean: number;
  high: number;
}

/** Fits into `width` × `height` with one pixel free around, all on one scale; unknown points are left out. */
export function sparkPaths(series: readonly Series[], width: number, height: number): Paths[] {
  const curves = series.map(pointsOf).filter((points) => points.length > 0);
  const all = curves.flat();
  if (all.length === 0) return [];
  const scaleX = scale(Math.min(...all.map(({ x }) => x)), Math.max(...all.map(({ x }) => x)), 1, width - 1);
  const scaleY = scale(Math.min(...all.map(({ low }) => low)), Math.max(...all.map(({ high }) => high)), height - 1, 1);
  const at = (x: number, y: number) => `${scaleX(x).toFixed(1)} ${scaleY(y).toFixed(1)}`;
  return curves.map((points) => {
    const upper = points.map(({ x, high }) => at(x, high));
    const lower = points.map(({ x, low }) => at(x, low)).reverse();
    return { line: `M${points.map(({ x, mean }) => at(x, mean)).join('L')}`, band: `M${[...upper, ...lower].join('L')}Z` };
  });
}

function pointsOf(series: Series): Point[] {
  return series.x.flatMap((x, place) => {
    const [low, mean, high] = [series.min[place], series.mean[place], series.max[place]];
    return typeof mean === 'number' ? [{ x, low: low ?? mean, mean, high: high ?? mean }] : [];
  });
}

function scale(low: number, high: number, start: number, end: number): (value: number) => number {
  const span = high - low;
  return (value) => (span === 0 ? (start + end) / 2 : start + ((value - low) / span) * (end - start));
}
