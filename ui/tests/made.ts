// Runs and series for tests, with only what a test cares about.
import type { Columns } from '../src/lib/columns.ts';
import type { Run } from '../src/lib/types.ts';

export function makeRun(change: Partial<Run> = {}): Run {
  return {
    id: 'a', name: 'swift-otter', kind: 'native', recipe: 'cartpole', state: 'running', created_at: 100, started_at: 110, ended_at: null,
    updated_at: 120, epoch: 1, agent_step: 1000, total_steps: 2000, progress: 0.5, exit_code: null, failure: '', summary: {}, tags: [], note: '', group: 'g',
    seed: 1, env: 'CartPole-v1', priority: 0, submitted_by: 'cli', executor: 'local', nproc: 1, attempt: 1, parent: null, is_live: false, is_silent: false, queue_position: null, ...change,
  };
}

export const column = (...values: number[]): Float64Array => Float64Array.from(values);

type Change = Partial<Record<'min' | 'max' | 'count' | 'bad', number[]>>;

export function makeSeries(run: string, x: number[], mean: number[], change: Change = {}): Columns {
  const { min = mean, max = mean, count = x.map(() => 1), bad = x.map(() => 0) } = change;
  const columns = { x: column(...x), min: column(...min), max: column(...max), mean: column(...mean), count: column(...count), bad: column(...bad) };
  return { run, name: 'charts/episodic_return', ...columns };
}
