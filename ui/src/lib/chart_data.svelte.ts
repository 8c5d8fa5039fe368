// The series behind one chart: asked for when the chart is seen, anew when zoom, axis or the runs themselves move on.
import * as api from './api.ts';
import type { Columns } from './columns.ts';
import type { Range } from './curves.ts';
import { leaveTurn, takeTurn } from './frame_scheduler.ts';
import type { Axis, Run } from './types.ts';

const MOST_POINTS = 10_000; // of one chart; more curves get fewer stretches each, and none loses a spike
const SIDE_BY_SIDE = 2; // questions of one chart: the others have their first curves as soon
const AT_ONCE = 100; // runs per question: what the daemon has begun for somebody who leaves is not much

export interface Wanted {
  runs: readonly Run[];
  name: string;
  axis: Axis;
  range: Range | null;
  width: number; // pixels
  pulse: number; // counts up when the runs have more to show
}

export function bucketsFor(width: number, runs: number): number {
  return Math.round(Math.max(60, Math.min(1200, width, MOST_POINTS / Math.max(1, runs))));
}

export class ChartData {
  series: Columns[] = $state.raw([]);
  isLoaded = $state(false);
  arrived: number | null = $state(null); // runs whose curves have come, while others have not
  problem: unknown = $state(null);
  private asked: Asked | null = null; // and not shown yet
  private later: Wanted | null = null; // the same of a later hour
  private whole: [string, Columns[]] = ['', []]; // what for, and what it was
  private shown = ''; // what `series` is of

  /** The former series stay until the new ones are there: zooming never blanks the chart. Zooming out, and coming back into
   * sight, ask for nothing. Question and answer have a turn each, as everything that charts do. */
  want(wanted: Wanted): void {
    const view = viewOf(wanted);
    if (this.asked?.view === view) {
      this.later = wanted; // runs that go on must not keep a slow answer from ever being seen
      return;
    }
    this.leave();
    const key = `${view} ${wanted.pulse}`;
    if (key === this.shown) return;
    if (this.whole[0] === key) takeTurn(this, () => this.show(key, this.whole[1]));
    else takeTurn(this, () => void this.load(key, wanted));
  }

  /** What has not come by now is not waited for: a daemon does not begin with what nobody wants any more. */
  leave(): void {
    leaveTurn(this);
    this.asked?.aborter.abort();
    this.asked = this.later = this.arrived = null;
  }

  private async load(key: string, wanted: Wanted): Promise<void> {
    const asked = (this.asked = { view: viewOf(wanted), aborter: new AbortController() });
    this.arrived = wanted.runs.length > AT_ONCE ? 0 : null;
    try {
      const found = await fetchSeries(wanted, asked.aborter.signal, (part, count) => this.showPart(asked, part, count));
      if (this.asked !== asked) return;
      if (!wanted.range) this.whole = [key, found];
      takeTurn(this, () => this.show(key, found));
    } catch (error) {
      if (this.asked !== asked) return;
      this.asked = this.later = null;
      this.problem = error;
    }
  }

  /** A chart that shows nothing yet shows what has come so far, and says how much that is. */
  private showPart(asked: Asked, found: Columns[], count: number): void {
    if (this.asked !== asked) return;
    this.arrived = count;
    if (this.shown === '') takeTurn(this, () => this.asked === asked && this.draw(found));
  }

  private draw(found: Columns[]): void {
    this.series = found;
    this.isLoaded = true;
  }

  private show(key: string, found: Columns[]): void {
    this.shown = key;
    this.arrived = null;
    this.series = found;
    this.isLoaded = true;
    this.problem = null;
    const { later } = this;
    this.asked = this.later = null;
    if (later) this.want(later);
  }
}

interface Asked {
  view: string;
  aborter: AbortController;
}

/** Equal words: the same part of the same curves. */
function viewOf({ runs, name, axis, range, width }: Wanted): string {
  return [name, axis, width, range, ...runs.map((run) => run.id)].join();
}

/** `onpart` is called with all that has come so far, in the order of the runs, and with the number of runs that is. */
async function fetchSeries({ runs, name, axis, range, width }: Wanted, signal: AbortSignal, onpart: (found: Columns[], runs: number) => void): Promise<Columns[]> {
  const buckets = bucketsFor(width, runs.length);
  const [from, to] = range ?? [null, null];
  const parts: Columns[][] = [];
  let arrived = 0;
  const fetchPart = async (start: number) => {
    const ids = runs.slice(start, start + AT_ONCE).map((run) => run.id);
    parts[start / AT_ONCE] = await api.series({ runs: ids, names: [name], buckets, axis, from, to }, signal);
    arrived += ids.length;
    if (arrived < runs.length) onpart(parts.flat(), arrived);
  };
  let next = 0;
  const fetchInTurn = async () => {
    while (next < runs.length) await fetchPart((next += AT_ONCE) - AT_ONCE);
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, fetchInTurn));
  return parts.flat();
}
