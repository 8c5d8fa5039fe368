// Which rows of a long table are near the visible part; only those are in the page.

const OVERSCAN = 12; // rows above and below, so that scrolling meets rows that are there

/** `top`: where the first row begins, in pixels below the upper edge of the window; negative once it is scrolled past. */
export function visibleRows(top: number, rowHeight: number, windowHeight: number, total: number): [first: number, end: number] {
  const above = Math.floor(-top / rowHeight);
  const first = Math.max(0, Math.min(above - OVERSCAN, total));
  const end = Math.min(total, above + Math.ceil(windowHeight / rowHeight) + OVERSCAN);
  return [first, Math.max(first, end)];
}
