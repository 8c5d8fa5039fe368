// Of a crowd of curves one band is drawn: from the lowest to the highest that any of them reached. A band for each would
// be a fog in which nothing can be told apart, and a hundred times the pixels.
import type { Curve } from '../lib/curves.ts';

type Intervals = Pick<Curve, 'x' | 'low' | 'high'>;

export interface Pixels {
  left: number;
  width: number;
  x(value: number): number;
  y(value: number): number; // downwards
  has(value: number): boolean;
  seen(curve: Intervals): [number, number];
}

/** For each column of pixels where the band begins and ends; beginning after its end: there is none. */
export function envelope(curves: readonly Intervals[], pixels: Pixels): { tops: Float64Array; feet: Float64Array } {
  const [left, width] = [Math.round(pixels.left), Math.ceil(pixels.width)];
  const tops = new Float64Array(width).fill(Infinity);
  const feet = new Float64Array(width).fill(-Infinity);
  for (const curve of curves) {
    const [first, last] = pixels.seen(curve);
    for (let index = first; index <= last; index++) {
      const low = curve.low[index]!;
      const high = curve.high[index]!;
      if (!pixels.has(low) || !pixels.has(high)) continue;
      const top = Math.floor(pixels.y(high));
      const foot = Math.ceil(pixels.y(low));
      const begin = Math.round(pixels.x(curve.x[index]!)) - left;
      const end = index < last ? Math.max(begin + 1, Math.round(pixels.x(curve.x[index + 1]!)) - left) : begin + 2;
      for (let column = Math.max(0, begin); column < Math.min(end, width); column++) {
        if (top < tops[column]!) tops[column] = top;
        if (foot > feet[column]!) feet[column] = foot;
      }
    }
  }
  return { tops, feet };
}
