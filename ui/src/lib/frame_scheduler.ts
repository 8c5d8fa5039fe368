// Charts take turns, with whatever they do: come into sight, ask, show what came, paint. As many as fit have theirs between
// two pictures, the others wait for the next. A zoom that redraws ten charts of a hundred curves each never holds up the page
// for longer than one of them takes.
const SHARE = 1; // millisecond of each image: painting what was drawn takes the browser several times as long

const waiting = new Map<object, () => void>();
let frame = 0;

/** The newest word of each chart counts; an earlier one that has not come to its turn is forgotten. The first turn comes a
 * image later: the next one is that of whoever asked, and an event that moves ten charts has its own work in it. */
export function takeTurn(who: object, draw: () => void): void {
  waiting.delete(who);
  waiting.set(who, draw);
  frame ||= requestAnimationFrame(() => (frame = next()));
}

export function leaveTurn(who: object): void {
  waiting.delete(who);
}

async function work(): Promise<void> {
  const end = performance.now() + SHARE;
  for (const [who, draw] of waiting) {
    waiting.delete(who);
    draw();
    await Promise.resolve(); // uPlot draws when the turn is over: its time counts too
    if (performance.now() > end) break;
  }
  frame = waiting.size > 0 ? next() : 0;
}

function next(): number {
  return requestAnimationFrame(() => void work());
}
