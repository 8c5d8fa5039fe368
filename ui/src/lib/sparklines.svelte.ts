// The little curves of the runs table: asked for together, and anew for runs that go on.
import { SvelteMap } from 'svelte/reactivity';
import * as api from './api.ts';
import type { Series } from './types.ts';

const AT_ONCE = 50; // runs per question
const STALE = 10_000; // milliseconds until a run that goes on is asked for again

class Sparklines {
  readonly series = new SvelteMap<string, Series>();
  private readonly asked = new Map<string, number>();

  /** `isOver` curves are fetched once. Failing is no matter: the cell stays empty, the table says what is wrong. */
  async want(runs: readonly { id: string; isOver: boolean }[]): Promise<void> {
    const now = Date.now();
    const due = runs.filter(({ id, isOver }) => {
      const before = this.asked.get(id);
      return before === undefined || (!isOver && now - before > STALE);
    });
    for (const { id } of due) this.asked.set(id, now);
    for (let start = 0; start < due.length; start += AT_ONCE) {
      const ids = due.slice(start, start + AT_ONCE).map(({ id }) => id);
      try {
        for (const one of await api.sparklines(ids)) this.series.set(one.run, one);
      } catch (error) {
        if (!(error instanceof api.ApiError)) throw error;
        for (const id of ids) this.asked.delete(id);
      }
    }
  }
}

export const sparklines = new Sparklines();
