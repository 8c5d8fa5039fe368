// One run, kept up to date while its page is open.
import { tick } from 'svelte';
import * as api from './api.ts';
import { events, type Message } from './events.svelte.ts';
import type { Run, RunDetail } from './types.ts';

export class RunWatch {
  detail: RunDetail | null = $state.raw(null);
  run: Run | null = $state.raw(null);
  isGoing = $state(false); // we are removing it
  isRemoved = $state(false);
  problem: unknown = $state(null);

  constructor(readonly id: string) {}

  start(): () => void {
    void this.load();
    return events.listen((message) => this.hear(message));
  }

  async load(): Promise<void> {
    try {
      this.detail = await api.run(this.id);
      this.run = this.detail.run;
      this.problem = null;
    } catch (error) {
      if (error instanceof api.ApiError && error.status === 404 && this.run) this.isRemoved = true;
      else this.problem = error;
    }
  }

  put(run: Run): void {
    const isNewState = run.state !== this.run?.state;
    this.run = run;
    if (isNewState) void this.load(); // with it come failure, config and command
  }

  /** Its parts leave the page first, and take back what they asked: too late an answer would be "not found". */
  async remove(): Promise<void> {
    this.isGoing = true;
    await tick();
    try {
      await api.invalidate(this.run?.id ?? this.id);
    } catch (error) {
      this.isGoing = false;
      throw error;
    }
  }

  private hear(message: Message): void {
    if (message.type === 'again') void this.load();
    if (message.type !== 'run' && message.type !== 'removed') return;
    if (message.run.id !== this.run?.id) return;
    if (message.type === 'removed') this.isRemoved = !this.isGoing;
    else this.put(message.run);
  }
}
