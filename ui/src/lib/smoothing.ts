// A running mean over both sides: the weight of a point falls to 1/e over `reach` on the x axis.
// In units of x and not of points, so that zooming in, which brings more points, leaves the curve where it was; and of
// both sides, so that a smoothed curve does not lag behind the one it smooths.

type Values = readonly (number | null)[];

/** null where nothing is known; a point of `counts[i]` measurements weighs as much as they would one by one. */
export function smooth(x: readonly number[], values: Values, counts: readonly number[], reach: number): (number | null)[] {
  if (reach <= 0) return [...values];
  const [sums, weights] = [new Float64Array(x.length), new Float64Array(x.length)];
  let [sum, weight, last] = [0, 0, 0];

  /** Everything up to this place in the order of calls, the further away the less. */
  function add(place: number): void {
    const [here, value, count] = [x[place]!, values[place] ?? null, counts[place] ?? 1];
    const kept = Math.exp(-Math.abs(here - last) / reach);
    sum = sum * kept + (value === null ? 0 : value * count);
    weight = weight * kept + (value === null ? 0 : count);
    last = here;
    sums[place]! += sum;
    weights[place]! += weight;
  }

  for (let place = 0; place < x.length; place++) add(place);
  [sum, weight] = [0, 0];
  for (let place = x.length - 1; place >= 0; place--) add(place);
  return values.map((value, place) => {
    const count = counts[place] ?? 1; // itself is in both
    return value === null ? null : (sums[place]! - value * count) / (weights[place]! - count);
  });
}

/** From the slider (0..1) to x: the square leaves room for fine settings; at most a tenth of the whole to either side. */
export function reachOf(strength: number, span: number): number {
  return (strength * strength * span) / 10;
}
