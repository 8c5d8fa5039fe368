// Beats when runs that are watched have moved on: at most every few seconds, and not while nobody looks.
import { events, runIdOf } from './events.svelte.ts';
import type { Run } from './types.ts';

const REST = 2500; // milliseconds between two beats

export class Pulse {
  count = $state(0);
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly runs: () => readonly Run[],
    private readonly beaten: () => void = () => undefined,
  ) {}

  start(): () => void {
    const stop = events.listen((message) => {
      const id = runIdOf(message);
      if (message.type === 'again' || this.runs().some((run) => run.id === id)) this.beat();
    });
    return () => {
      stop();
      clearTimeout(this.timer);
      this.timer = undefined;
    };
  }

  private beat(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      if (document.visibilityState === 'hidden') return this.beat();
      this.count++;
      this.beaten();
    }, REST);
  }
}
