// The runs table's content: asked for with the filter, then kept up to date by events, row by row, in its place.
import * as api from './api.ts';
import { events, type Message } from './events.svelte.ts';
import { sparklines } from './sparklines.svelte.ts';
import { isOver } from './states.ts';
import type { Run } from './types.ts';

const PAGE = 100; // runs
const SETTLE = 300; // milliseconds: new runs come in crowds, the list is asked for once

export class RunList {
  runs: Run[] = $state.raw([]);
  total = $state(0);
  isLoaded = $state(false);
  problem: unknown = $state(null);
  private query: api.RunQuery = {};
  private shown = PAGE;
  private aborter = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private waiting = new Map<string, Run>();
  private frame = 0;

  /** Listens until the returned function is called. */
  start(): () => void {
    const stop = events.listen((message) => this.hear(message));
    const curves = setInterval(() => this.drawCurves(), 5000);
    return () => {
      stop();
      clearInterval(curves);
      clearTimeout(this.timer);
      cancelAnimationFrame(this.frame);
      this.aborter.abort();
    };
  }

  ask(query: api.RunQuery): void {
    this.query = query;
    this.shown = PAGE;
    void this.load();
  }

  more(): void {
    this.shown += PAGE;
    void this.load();
  }

  async load(): Promise<void> {
    this.aborter.abort();
    this.aborter = new AbortController();
    try {
      const page = await api.runs({ ...this.query, limit: this.shown }, this.aborter.signal);
      this.runs = page.runs;
      this.total = page.total;
      this.problem = null;
      this.isLoaded = true;
      this.drawCurves();
    } catch (error) {
      if (!api.isAbort(error)) this.problem = error;
    }
  }

  put(run: Run): void {
    this.runs = this.runs.map((one) => (one.id === run.id ? run : one));
  }

  private drawCurves(): void {
    void sparklines.want(this.runs.map((run) => ({ id: run.id, isOver: isOver(run.state) })));
  }

  private hear(message: Message): void {
    if (message.type === 'again') this.later();
    if (message.type === 'removed') this.later();
    if (message.type !== 'run' || typeof message.run !== 'object') return;
    const { run } = message;
    if (!this.runs.some((one) => one.id === run.id)) return this.later();
    this.waiting.set(run.id, run);
    this.frame ||= requestAnimationFrame(() => this.renew());
  }

  /** Many events between two pictures are one change of the table. */
  private renew(): void {
    this.frame = 0;
    this.runs = this.runs.map((run) => this.waiting.get(run.id) ?? run);
    this.waiting.clear();
  }

  private later(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.load(), SETTLE);
  }
}
