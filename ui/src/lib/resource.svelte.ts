// Something of a run that is asked for when shown, and again when the run has moved on.
import { untrack } from 'svelte';
import * as api from './api.ts';
import { Pulse } from './pulse.svelte.ts';
import type { Run } from './types.ts';

export class Resource<T> {
  value: T | null = $state.raw(null);
  problem: unknown = $state(null);
  private readonly pulse: Pulse;

  constructor(
    private readonly ask: () => Promise<T>,
    run: () => Run,
  ) {
    this.pulse = new Pulse(() => [run()], () => void this.load());
  }

  start(): () => void {
    untrack(() => void this.load()); // what the question reads is no reason to begin anew
    return this.pulse.start();
  }

  async load(): Promise<void> {
    try {
      this.value = await this.ask();
      this.problem = null;
    } catch (error) {
      if (!api.isAbort(error)) this.problem = error;
    }
  }
}
