// Something of a run that is asked for when shown, and again when the run has moved on.
import { untrack } from 'svelte';
import * as api from './api.ts';
import { Pulse } from './refresh_signal.svelte.ts';
import type { Run } from './types.ts';

export class Resource<T> {
  value: T | null = $state.raw(null);
  problem: unknown = $state(null);
  private readonly pulse: Pulse;
  private aborter = new AbortController();

  constructor(
    private readonly ask: (signal: AbortSignal) => Promise<T>,
    run: () => Run,
  ) {
    this.pulse = new Pulse(() => [run()], () => void this.load());
  }

  start(): () => void {
    this.aborter = new AbortController();
    untrack(() => void this.load()); // what the question reads is no reason to begin anew
    const stop = this.pulse.start();
    return () => {
      stop();
      this.aborter.abort();
    };
  }

  async load(): Promise<void> {
    try {
      this.value = await this.ask(this.aborter.signal);
      this.problem = null;
    } catch (error) {
      if (!api.isAbort(error)) this.problem = error;
    }
  }
}
