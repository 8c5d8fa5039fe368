// The series behind one chart: asked for when the chart is seen, anew when zoom, axis or the runs themselves move on.
import * as api from './api.ts';
import { originOf, type Range } from './curves.ts';
import type { Axis, Run, Series } from './types.ts';

const MOST_POINTS = 10_000; // of one chart; more curves get fewer stretches each, and none loses a spike
const AT_ONCE = 8000; // points per question: answers come in pieces that are read without holding up the page

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
  series: Series[] = $state.raw([]);
  isLoaded = $state(false);
  problem: unknown = $state(null);
  private aborter: AbortController | null = null;
  private whole: [string, Series[]] = ['', []]; // what for, and what it was

  /** The former series stay until the new ones are there: zooming never blanks the chart. Zooming out asks for nothing. */
  async load(wanted: Wanted): Promise<void> {
    this.aborter?.abort();
    const aborter = (this.aborter = new AbortController());
    const { runs, name, axis, range, width, pulse } = wanted;
    const key = [name, axis, width, pulse, ...runs.map((run) => run.id)].join();
    try {
      const found = !range && this.whole[0] === key ? this.whole[1] : await fetchSeries(wanted, aborter.signal);
      if (aborter.signal.aborted) return;
      if (!range) this.whole = [key, found];
      this.series = found;
      this.isLoaded = true;
      this.problem = null;
    } catch (error) {
      if (!api.isAbort(error)) this.problem = error;
    }
  }

  close(): void {
    this.aborter?.abort();
  }
}

async function fetchSeries({ runs, name, axis, range, width }: Wanted, signal: AbortSignal): Promise<Series[]> {
  const buckets = bucketsFor(width, runs.length);
  const ask = (ids: string[], origin: number) => {
    const [from, to] = range ? [range[0] + origin, range[1] + origin] : [null, null];
    return api.series({ runs: ids, names: [name], buckets, axis, from, to }, signal);
  };
  // Every run began at a time of its own: zoomed into wall time, each is asked for by itself.
  const size = axis === 'time' && range ? 1 : Math.max(1, Math.floor(AT_ONCE / buckets));
  const parts: Promise<Series[]>[] = [];
  for (let start = 0; start < runs.length; start += size) {
    const part = runs.slice(start, start + size);
    parts.push(ask(part.map((run) => run.id), size === 1 ? originOf(part[0]!, axis) : 0));
  }
  return (await Promise.all(parts)).flat();
}
