// The little curves of the runs table: asked for together, and anew for runs that go on.
import { SvelteMap } from 'svelte/reactivity';
import * as api from './api.ts';
import type { Run, Series } from './types.ts';

const AT_ONCE = 50; // runs per question
const WHOLE = Infinity; // asked for after its end: nothing more will come
const STALE = 10_000; // milliseconds until a run that goes on is asked for again

class Sparklines {
  readonly series = new SvelteMap<string, Series>();
  private readonly scores = new SvelteMap<string, number>(); // of the last evaluation
  private readonly asked = new Map<string, number>();

  /** As the run says itself, else the last that was measured while it trained. */
  scoreOf(run: Run): number | null {
    return run.summary['score'] ?? this.scores.get(run.id) ?? null;
  }

  private learn({ run, mean }: Series): void {
    const last = mean.findLast((value) => value !== null);
    if (typeof last === 'number') this.scores.set(run, last);
  }

  /** `isOver` curves are fetched once. Failing is no matter: the cell stays empty, the table says what is wrong. */
  async want(runs: readonly { id: string; isOver: boolean }[]): Promise<void> {
    const now = Date.now();
    const due = runs.filter(({ id, isOver }) => {
      const before = this.asked.get(id);
      return before === undefined || (before !== WHOLE && (isOver || now - before > STALE));
    });
    for (const { id, isOver } of due) this.asked.set(id, isOver ? WHOLE : now);
    for (let start = 0; start < due.length; start += AT_ONCE) {
      const ids = due.slice(start, start + AT_ONCE).map(({ id }) => id);
      try {
        for (const one of await api.sparklines(ids, 'charts/episodic_return')) this.series.set(one.run, one);
        for (const one of await api.sparklines(ids, 'eval/episodic_return')) this.learn(one);
      } catch (error) {
        if (!(error instanceof api.ApiError)) throw error;
        for (const id of ids) this.asked.delete(id);
      }
    }
  }
}

export const sparklines = new Sparklines();
