// Which tiles are shown, in which order, and how many stand beside each other.
export const LIMITS = [1, 4, 9, 16, 25, 36, 64] as const;
export const ORDERS = ['number', 'return', 'length'] as const;
export type Order = (typeof ORDERS)[number];

export interface RankComparison {
  total: number;
  length: number;
}

/** The slots of one page of the mosaic. */
export function slotsOf(page: number, limit: number, count: number): number[] {
  const first = Math.min(page, lastPage(limit, count)) * limit;
  return Array.from({ length: Math.max(0, Math.min(limit, count - first)) }, (_, index) => first + index);
}

export function lastPage(limit: number, count: number): number {
  return Math.max(0, Math.ceil(count / limit) - 1);
}

/** The best first; a tile of which nothing is known stands last, equal ones by their number. */
export function ordered(slots: readonly number[], order: Order, known: (slot: number) => RankComparison | undefined): number[] {
  if (order === 'number') return [...slots];
  const worth = (slot: number) => {
    const value = known(slot)?.[order === 'return' ? 'total' : 'length'];
    return value === undefined || Number.isNaN(value) ? -Infinity : value;
  };
  const worths = new Map(slots.map((slot) => [slot, worth(slot)]));
  return slots.toSorted((one, other) => {
    const [first, second] = [worths.get(one)!, worths.get(other)!];
    return first === second ? one - other : second - first;
  });
}

/** So many columns that the tiles, of this shape (width / height), become as large as the room allows. */
export function columnsFor(count: number, width: number, height: number, shape: number, caption: number): number {
  let [best, largest] = [1, 0];
  for (let columns = 1; columns <= Math.max(1, count); columns++) {
    const rows = Math.ceil(count / columns);
    const side = Math.min(width / columns, (height / rows - caption) * shape);
    if (side > largest) [best, largest] = [columns, side];
  }
  return best;
}
