// Whether somebody is scrolling just now: what flies past is not worth asking for.
const STILL = 100; // milliseconds without a move

let scrolledAt = -Infinity;
document.addEventListener('scroll', () => (scrolledAt = performance.now()), { passive: true, capture: true });

/** Milliseconds that something which has just come into sight should stay there before it is worked for. */
export function lingering(): number {
  return performance.now() - scrolledAt < STILL ? STILL : 0;
}
