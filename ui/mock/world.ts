// Made-up runs for developing the page without a daemon. Nothing of this is in the built page.
import type { Run, Series, State } from '../src/lib/types.ts';

const NAMES = ['brisk-otter', 'calm-heron', 'merry-lynx', 'quiet-finch', 'bold-ibex', 'keen-marten', 'swift-plover', 'wise-tapir'];
const RECIPES: [string, string, number][] = [
  ['cartpole', 'CartPole-v1', 500], ['arena.basic', 'palaestra/Arena-v0', 24], ['lunarlander', 'LunarLander-v3', 260], ['halfcheetah', 'HalfCheetah-v5', 4200],
];
const PLAN: State[] = ['running', 'running', 'queued', 'finished', 'finished', 'finished', 'failed', 'finished', 'cancelled', 'lost', 'finished', 'finished'];
export const METRICS = [
  'charts/episodic_return', 'charts/episodic_length', 'charts/learning_rate', 'charts/SPS', 'eval/episodic_return',
  'losses/policy_loss', 'losses/value_loss', 'losses/entropy', 'losses/approx_kl', 'losses/clipfrac', 'time/rollout',
];

/** A cheap dice whose result depends on its arguments alone. */
function dice(...seeds: number[]): number {
  let state = 2166136261;
  for (const seed of seeds) state = Math.imul(state ^ (seed | 0), 16777619) ^ (state >>> 13);
  return ((Math.imul(state ^ (state >>> 15), 2246822519) >>> 0) % 100000) / 100000;
}

export function makeRuns(count: number, now: number): Run[] {
  return Array.from({ length: count }, (_, index) => makeRun(index, now)).reverse();
}

function makeRun(index: number, now: number): Run {
  const family = Math.floor(index / 3);
  const [recipe, env, best] = RECIPES[family % RECIPES.length]!;
  const state = PLAN[(PLAN.length * 9 - 1 - index) % PLAN.length]!;
  const total = recipe === 'cartpole' ? 200_000 : 2_000_000;
  const share = state === 'finished' ? 1 : state === 'queued' ? 0 : 0.15 + 0.7 * dice(index);
  const created = now - (60 - index) * 1900;
  const started = state === 'queued' ? null : created + 3;
  const hasScore = share > 0.3;
  return {
    id: `01K${String(index).padStart(23, '0')}`, name: index === 7 ? '<script>alert("hi")</script> \u202egnorts' : `${NAMES[index % NAMES.length]}-${index}`,
    kind: 'native', recipe, state, created_at: created, started_at: started,
    ended_at: ['running', 'queued'].includes(state) ? null : created + 900 * share, updated_at: now,
    epoch: Math.floor(share * 100), agent_step: Math.floor(total * share), total_steps: total, progress: share,
    exit_code: state === 'finished' ? 0 : state === 'failed' ? 1 : null,
    failure: state === 'failed' ? 'The loss became NaN at update 412; the last good checkpoint is epoch 40.' : '',
    summary: state === 'queued' ? {} : { episodic_return: best * share * (0.85 + 0.15 * dice(index, 5)), steps_per_second: 4000 + 3000 * dice(index, 2), ...(hasScore ? { score: best * share * 0.97 } : {}) },
    tags: index % 5 === 0 ? ['baseline'] : index % 7 === 0 ? ['ablation', 'wide'] : [], group: `g${family}`, seed: (index % 3) + 1,
    env, priority: 0, submitted_by: index % 2 ? 'cli' : 'web', executor: 'local', nproc: 1, attempt: 1, note: '', is_silent: false, parent: null, is_live: state === 'running',
    queue_position: state === 'queued' ? 1 : null,
  };
}

/** Climbs like a learning curve, with noise and now and then a spike; `share` 0..1 of the run. */
function valueAt(run: Run, metric: number, share: number, grain: number): number {
  const seed = Number(run.id.slice(3));
  const noise = dice(seed, metric, grain) - 0.5;
  const spike = dice(seed, metric, grain, 9) > 0.995 ? 0.8 : 0;
  const best = RECIPES.find(([name]) => name === run.recipe)?.[2] ?? 100;
  if (metric === 2) return 1e-3 * (1 - share);
  if (metric >= 5) return Math.exp(-3 * share) * (1 + noise * 0.6) + spike;
  return best * (1 / (1 + Math.exp(-9 * (share - 0.35 - 0.1 * dice(seed)))) + noise * 0.25 * (1 - 0.5 * share) - spike * 0.3);
}

export function makeSeries(run: Run, name: string, buckets: number, from: number, to: number, time: boolean): Series {
  const metric = Math.max(0, METRICS.indexOf(name));
  const points = metric === 4 ? 20 : 20000; // of the whole run
  const scale = time ? 900 : run.total_steps;
  const last = scale * (run.progress ?? 0);
  const [start, end] = [Math.max(0, from), Math.min(last, to)];
  const inside = Math.floor(((end - start) / scale) * points);
  const count = Math.max(1, Math.floor(inside / buckets));
  const series: Series = { run: run.id, name, x: [], min: [], max: [], mean: [], count: [], bad: [] };
  for (let bucket = 0; bucket < Math.min(buckets, inside); bucket++) {
    const values = Array.from({ length: Math.min(count, 12) }, (_, part) => {
      const grain = Math.floor((start / scale) * points) + bucket * count + part;
      return valueAt(run, metric, grain / points, grain);
    });
    series.x.push(Math.round(start + ((bucket + 0.5) * count * scale) / points));
    series.min.push(Math.min(...values));
    series.max.push(Math.max(...values));
    series.mean.push(values.reduce((sum, one) => sum + one, 0) / values.length);
    series.count.push(count);
    series.bad.push(0);
  }
  return series;
}
