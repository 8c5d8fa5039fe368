// The runs table's content, one by one or by group: the pages in view are fetched, then kept up to date by events.
import { SvelteMap } from 'svelte/reactivity';
import * as api from './api.ts';
import { events, type Message } from './events.svelte.ts';
import { PagedList } from './paged_list.svelte.ts';
import { sparklines } from './sparklines.svelte.ts';
import { isOver } from './states.ts';
import type { Run, RunGroup } from './types.ts';

const SOON = 300; // milliseconds: new runs come in crowds, the list is asked for once
const AT_LEISURE = 2000; // for what changes figures of a group, or a run that is not in view
const MOST_AT_ONCE = 1000; // runs the daemon lists in one answer
const CURVES_OF_GROUP = 20; // small curves in one row

export class RunList {
  readonly runs: PagedList<Run>;
  readonly groups: PagedList<RunGroup>;
  readonly members = new SvelteMap<string, Run[]>(); // of the groups that are open, by key
  runTotal = $state(0);
  isGrouped = $state(false);
  private query: api.RunQuery = {};
  private timer: ReturnType<typeof setTimeout> | undefined;
  private waiting = new Map<string, Run>();
  private frame = 0;
  private dueAt = 0; // of the timer
  private range: readonly [number, number] = [0, 0];

  constructor() {
    this.runs = new PagedList(async (offset, limit, signal) => {
      const page = await api.runs({ ...this.query, offset, limit }, signal);
      this.runTotal = page.total;
      return { items: page.runs, total: page.total };
    });
    this.groups = new PagedList(async (offset, limit, signal) => {
      const page = await api.runGroups({ ...this.query, offset, limit }, signal);
      this.runTotal = page.run_total;
      return { items: page.groups, total: page.total };
    });
  }

  get list(): PagedList<Run> | PagedList<RunGroup> {
    return this.isGrouped ? this.groups : this.runs;
  }

  /** Runs that have arrived, wherever they stand. */
  get known(): Run[] {
    const found = this.isGrouped ? [...this.groups.loaded.map(([, group]) => group.first), ...[...this.members.values()].flat()] : this.runs.loaded.map(([, run]) => run);
    return [...new Map(found.map((run) => [run.id, run])).values()];
  }

  /** Listens until the returned function is called. */
  start(): () => void {
    const stop = events.listen((message) => this.hear(message));
    const curves = setInterval(() => this.drawCurves(), 5000);
    return () => {
      stop();
      clearInterval(curves);
      clearTimeout(this.timer);
      cancelAnimationFrame(this.frame);
      this.runs.cancel();
      this.groups.cancel();
    };
  }

  ask(query: api.RunQuery, isGrouped: boolean): void {
    [this.query, this.isGrouped] = [query, isGrouped];
    this.members.clear();
    this.list.restart();
  }

  load(): void {
    void this.list.refresh();
    for (const key of this.members.keys()) void this.open(key);
  }

  /** Rows of `list` that are in view. */
  show(first: number, end: number): void {
    this.range = [first, end];
    this.list.show(first, end);
    this.drawCurves();
  }

  /** Fetches all runs of a group. */
  async open(key: string): Promise<void> {
    try {
      this.members.set(key, await this.everyRun({ ...this.query, group: key }));
    } catch (error) {
      this.groups.problem = error;
    }
  }

  async allIds(): Promise<string[]> {
    return (await this.everyRun(this.query)).map((run) => run.id);
  }

  put(run: Run): void {
    const change = (one: Run) => (one.id === run.id ? run : one);
    this.runs.replace(change);
    this.groups.replace((group) => (group.first.id === run.id ? { ...group, first: run } : group));
    for (const [key, runs] of this.members) if (runs.some((one) => one.id === run.id)) this.members.set(key, runs.map(change));
  }

  private async everyRun(query: api.RunQuery): Promise<Run[]> {
    const found: Run[] = [];
    for (let total = 1; found.length < total; ) {
      const page = await api.runs({ ...query, offset: found.length, limit: MOST_AT_ONCE });
      if (page.runs.length === 0) break;
      found.push(...page.runs);
      total = page.total;
    }
    return found;
  }

  private drawCurves(): void {
    const wanted = [];
    for (let index = this.range[0]; index < this.range[1]; index++) {
      const run = this.isGrouped ? undefined : this.runs.at(index);
      const group = this.isGrouped ? this.groups.at(index) : undefined;
      if (run) wanted.push({ id: run.id, isOver: isOver(run.state) });
      if (group) wanted.push(...group.ids.slice(0, CURVES_OF_GROUP).map((id) => ({ id, isOver: group.ids.length === (group.states['finished'] ?? 0) })));
    }
    for (const run of [...this.members.values()].flatMap((runs) => runs.slice(0, CURVES_OF_GROUP))) wanted.push({ id: run.id, isOver: isOver(run.state) });
    void sparklines.want(wanted);
  }

  private hear(message: Message): void {
    if (message.type === 'again' || message.type === 'removed') this.later(SOON);
    if (message.type !== 'run') return;
    const { run } = message;
    const isKnown = this.known.some((one) => one.id === run.id);
    if (!isKnown) this.later(message.change === 'accepted' ? SOON : AT_LEISURE);
    else if (this.isGrouped) this.later(AT_LEISURE);
    this.waiting.set(run.id, run);
    this.frame ||= requestAnimationFrame(() => this.renew());
  }

  /** Many events between two pictures are one change of the table. */
  private renew(): void {
    this.frame = 0;
    const { waiting } = this;
    this.waiting = new Map();
    const change = (run: Run) => waiting.get(run.id) ?? run;
    this.runs.replace(change);
    this.groups.replace((group) => ({ ...group, first: change(group.first) }));
    for (const [key, runs] of this.members) this.members.set(key, runs.map(change));
  }

  /** Whatever keeps coming, the list is asked for after `wait` milliseconds at the latest. */
  private later(wait: number): void {
    const due = performance.now() + wait;
    if (this.timer && due >= this.dueAt) return;
    clearTimeout(this.timer);
    this.dueAt = due;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.load();
    }, wait);
  }
}
