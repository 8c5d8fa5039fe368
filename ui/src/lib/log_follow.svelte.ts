// Follows one log: its end first, then whatever is added, a piece at a time.
import { untrack } from 'svelte';
import * as api from './api.ts';
import { events, runIdOf } from './events.svelte.ts';
import { journalLine, LogLines } from './log_text.ts';
import type { LogPart } from './types.ts';

type Piece = Omit<LogPart, 'stream' | 'streams'> & { streams?: string[] }; // the journal is one stream

export const WORKER = 'worker'; // what the worker printed
export const JOURNAL = 'journal'; // what happened to the run
const FIRST_RANK = 'rank_0';
const FIRST_LINES = 2000;
const MOST_LINES = 5000;
const REST = 1000; // milliseconds between two looks while something happens
const IDLE = 15_000;

export class LogFollow {
  lines: string[] = $state.raw([]);
  dropped = $state(0);
  streams: string[] = $state.raw([]);
  isLoaded = $state(false);
  hasEarlier = $state(false);
  problem: unknown = $state(null);
  private next: number | null = null; // byte of the file, or entry of the journal
  private actual: string;
  private text = new LogLines(MOST_LINES);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isClosed = false;

  constructor(
    private readonly run: string,
    private readonly stream: string, // a file of the log, or JOURNAL
    private readonly isOver: () => boolean,
  ) {
    this.actual = stream;
  }

  start(): () => void {
    const stop = events.listen((message) => {
      const id = runIdOf(message);
      if (id === this.run || message.type === 'again') this.soon(REST);
    });
    untrack(() => void this.look());
    return () => {
      stop();
      clearTimeout(this.timer);
      this.isClosed = true;
    };
  }

  private soon(wait: number): void {
    clearTimeout(this.timer);
    if (!this.isClosed) this.timer = setTimeout(() => void this.look(), wait);
  }

  private async look(): Promise<void> {
    let wait = this.isOver() ? 0 : IDLE / 5;
    try {
      const isFirst = this.next === null;
      const part = await this.piece();
      if (this.isClosed) return;
      if (!isFirst && part.from < this.next!) this.text = new LogLines(MOST_LINES); // it was cut and begins anew
      if (part.text !== '') this.text.add(part.text);
      if (part.text !== '' || isFirst) [this.lines, this.dropped] = [this.text.all, this.text.dropped];
      if (isFirst) this.hasEarlier = part.from > 0;
      if (part.streams) this.streams = part.streams;
      this.next = part.next;
      [this.isLoaded, this.problem] = [true, null];
      if (part.next < part.size) wait = 1;
    } catch (error) {
      this.problem = error;
      wait = IDLE / 3;
    }
    if (wait > 0) this.soon(wait);
  }

  private async piece(): Promise<Piece> {
    if (this.stream === JOURNAL) return this.happenings();
    const where = this.next === null ? { tail: FIRST_LINES } : { from: this.next };
    const part = await api.log(this.run, { stream: this.actual, ...where });
    if (part.size > 0 || this.actual !== WORKER || !part.streams.includes(FIRST_RANK)) return part;
    this.actual = FIRST_RANK; // the worker printed nothing; its first rank may have more to say
    return api.log(this.run, { stream: this.actual, tail: FIRST_LINES });
  }

  private async happenings(): Promise<Piece> {
    const after = this.next ?? Math.max(0, (await api.journal(this.run, Number.MAX_SAFE_INTEGER, 1)).total - FIRST_LINES);
    const { entries, next, total } = await api.journal(this.run, after, FIRST_LINES);
    return { text: entries.map((entry) => `${journalLine(entry)}\n`).join(''), from: after, next, size: total };
  }
}
