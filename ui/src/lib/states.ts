// The states of a run, in the words and shapes of the page. Shape and word say it, colour only helps.
import type { IconName } from '../parts/icons.ts';
import type { Run, State } from './types.ts';

export const STATE_STYLES: Record<State, { icon: IconName; tone: 'calm' | 'busy' | 'good' | 'warn' | 'bad' }> = {
  queued: { icon: 'ring', tone: 'calm' },
  running: { icon: 'play', tone: 'busy' },
  stopping: { icon: 'stop', tone: 'warn' },
  finished: { icon: 'check', tone: 'good' },
  failed: { icon: 'cross', tone: 'bad' },
  cancelled: { icon: 'dash', tone: 'calm' },
  lost: { icon: 'unknown', tone: 'warn' },
};

export function isOver(state: State): boolean {
  return state === 'finished' || state === 'failed' || state === 'cancelled' || state === 'lost';
}

export type Action = 'stop' | 'kill' | 'cancel' | 'retry' | 'clone' | 'remove';

/** What can be done with a run as it is now; the likeliest first. */
export function actionsFor(run: Run): Action[] {
  if (run.state === 'queued') return ['cancel', 'clone'];
  if (run.state === 'running') return ['stop', 'clone'];
  if (run.state === 'stopping') return ['kill', 'clone'];
  return run.state === 'finished' ? ['clone', 'remove'] : ['retry', 'clone', 'remove'];
}

/** As fast as it went so far; null when that cannot be known, or when nothing is left. */
export function secondsLeft(run: Run, passed: number | null): number | null {
  if (run.state !== 'running' || !run.progress || run.progress >= 1 || !passed) return null;
  const speed = run.summary['steps_per_second'];
  const steps = run.total_steps - run.agent_step;
  return speed && run.total_steps > 0 ? Math.max(0, steps / speed) : (passed * (1 - run.progress)) / run.progress;
}
