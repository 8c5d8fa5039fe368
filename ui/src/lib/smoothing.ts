// A running mean over both sides: the weight of a point falls to 1/e over `reach` on the x axis.
// In units of x and not of points, so that zooming in, which brings more points, leaves the curve where it was; and of
// both sides, so that a smoothed curve does not lag behind the one it smooths.

// Of one curve after the other: a chart of a hundred would leave three hundred small pieces of memory to be collected.
let sums = new Float64Array(1024);
let weights = new Float64Array(1024);

/** Into `line`, NaN where nothing is known; a point of `counts[i]` measurements weighs as much as they would one by one. */
export function smooth(x: Float64Array, values: Float64Array, counts: Float64Array, reach: number, line: Float64Array = new Float64Array(x.length)): Float64Array {
  if (reach <= 0) return values;
  if (sums.length < x.length) [sums, weights] = [new Float64Array(2 * x.length), new Float64Array(2 * x.length)];
  let [sum, weight, last] = [0, 0, 0];
  let [gap, kept] = [0, 1]; // most points are as far from the one before as that from its own: worked out once

  /** Everything up to this index in the order of calls, the further away the less. */
  function add(index: number): void {
    const here = x[index]!;
    const value = values[index]!;
    if (Math.abs(here - last) !== gap) {
      gap = Math.abs(here - last);
      kept = Math.exp(-gap / reach);
    }
    const count = Number.isNaN(value) ? 0 : counts[index]!;
    sum = sum * kept + (count > 0 ? value * count : 0);
    weight = weight * kept + count;
    last = here;
  }

  for (let index = 0; index < x.length; index++) {
    add(index);
    sums[index] = sum;
    weights[index] = weight;
  }
  [sum, weight] = [0, 0];
  for (let index = x.length - 1; index >= 0; index--) {
    add(index);
    const count = counts[index]!; // itself is in both
    line[index] = (sums[index]! + sum - values[index]! * count) / (weights[index]! + weight - count); // NaN stays NaN
  }
  return line;
}

/** From the slider (0..1) to x: the square leaves room for fine settings; at most a tenth of the whole to either side. */
export function reachOf(strength: number, span: number): number {
  return (strength * strength * span) / 10;
}
