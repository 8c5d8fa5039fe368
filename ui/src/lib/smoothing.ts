// A running mean over both sides: the weight of a point falls to 1/e over `reach` on the x axis.
// In units of x and not of points, so that zooming in, which brings more points, leaves the curve where it was; and of
// both sides, so that a smoothed curve does not lag behind the one it smooths.

/** null where nothing is known; a point of `counts[i]` measurements weighs as much as they would one by one. */
export function smooth(
  x: readonly number[],
  values: readonly (number | null)[],
  counts: readonly number[],
  reach: number,
): (number | null)[] {
  if (reach <= 0) return [...values];
  const places = values.map((_, place) => place);
  const before = gather(places, x, values, counts, reach);
  const after = gather(places.toReversed(), x, values, counts, reach);
  return values.map((value, place) => {
    if (value === null) return null;
    const [count, left, right] = [counts[place] ?? 1, before[place]!, after[place]!];
    return (left.sum + right.sum - value * count) / (left.weight + right.weight - count); // itself is in both
  });
}

interface Gathered {
  sum: number;
  weight: number;
}

/** At each place, everything up to it in the given order, the further away the less. */
function gather(
  order: readonly number[],
  x: readonly number[],
  values: readonly (number | null)[],
  counts: readonly number[],
  reach: number,
): Gathered[] {
  const found: Gathered[] = new Array<Gathered>(order.length);
  let [sum, weight, last] = [0, 0, x[order[0] ?? 0] ?? 0];
  for (const place of order) {
    const here = x[place] ?? last;
    const kept = Math.exp(-Math.abs(here - last) / reach);
    const [value, count] = [values[place] ?? null, counts[place] ?? 1];
    sum = sum * kept + (value === null ? 0 : value * count);
    weight = weight * kept + (value === null ? 0 : count);
    last = here;
    found[place] = { sum, weight };
  }
  return found;
}

/** From the slider (0..1) to x: the square leaves room for fine settings; at most a tenth of the whole to either side. */
export function reachOf(strength: number, span: number): number {
  return (strength * strength * span) / 10;
}
