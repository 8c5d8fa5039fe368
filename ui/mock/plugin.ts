// A daemon of made-up runs behind `npm run dev`: the questions of docs/api.md, answered from mock/world.ts.
import { execFileSync } from 'node:child_process';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Plugin, ViteDevServer } from 'vite';
import type { Json, Run, RunRequest, Series } from '../src/lib/types.ts';
import { Sockets } from './socket.ts';
import { makeRuns, makeSeries, METRICS } from './world.ts';

type Nested = { [key: string]: Json };
/** As docs/api.md has it for `form=columns`. */
function packColumns(series: Series[]): Buffer {
  const told = JSON.stringify({ series: series.map(({ run, name, x }) => ({ run, name, length: x.length })) });
  const head = Buffer.from(told.padEnd(told.length + ((8 - ((4 + told.length) % 8)) % 8)), 'latin1');
  const columns = series.flatMap(({ x, min, max, mean, count }) => [x, min, max, mean, count, x.map(() => 0)]);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(head.length);
  return Buffer.concat([size, head, Buffer.from(Float64Array.from(columns.flat(), (value) => value ?? NaN).buffer)]);
}

type Answer = (match: string[], query: URLSearchParams, body: Nested) => unknown;

const sockets = new Sockets();
const runs: Run[] = makeRuns(Number(process.env['MOCK_RUNS'] ?? 24), Date.now() / 1000);
const find = (id: string | undefined): Run => runs.find((run) => run.id === id) ?? refuse(404, `No run is called '${id}'.`);
const LINES = Array.from({ length: 400 }, (_, line) => `2026-11-16 03:${String(line % 60).padStart(2, '0')} info run=01K rank=0 update ${line} return=${(line * 1.21).toFixed(1)}`);

const FOUND = { id: '2x2x2-zt-r7-0123', format: '2x2x2', field: 'zt', field_meaning: 'coefficients -1, 0 and 1', rank: 7, naive_rank: 8, known: 7, comparison: 'matches', additions_naive: 18, additions_eliminated: 15, additions_known: 15, largest_coefficient: 1, fingerprint: '0123', canonical: '4567', run: '', method: 'flip', seed: 1, step: 123456, wall_seconds: 1.2, cpu_seconds: 1.1, found_at: 1.79e9, origin: 'discovered', parents: [], benchmark_count: 0, file: '/runs/discoveries/2x2x2.json' };

class Refusal extends Error {
  constructor(readonly status: number, message: string, readonly fields: object[] = []) {
    super(message);
  }
}

function refuse(status: number, message: string): never {
  throw new Refusal(status, message);
}

let form: Nested | null = null;
function realForm(): Nested {
  const words = 'import json; from palaestra.config.train import TrainConfig as T; from palaestra.config.keys import config_schema; print(json.dumps({"schema": config_schema(), "defaults": T().model_dump(mode="json")}))';
  form ??= JSON.parse(execFileSync('../.venv/bin/python', ['-c', words], { encoding: 'utf8' })) as Nested;
  return form;
}

function check(request: RunRequest): object {
  const gamma = ((request.config['ppo'] as Nested | undefined) ?? {})['gamma'];
  const wrong = typeof gamma === 'number' && gamma > 1;
  const errors = wrong ? [{ key: 'ppo.gamma', message: `${gamma} is above 1`, hint: 'a number of at most 1' }] : [];
  const flat = Object.entries(request.config).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`);
  return { errors, config: request.config, yaml: JSON.stringify(request.config, null, 2), command: `palaestra train ${request.recipe}${flat.join('')}` };
}

function list(query: URLSearchParams): object {
  const has = (run: Run) => (!query.get('state') || query.get('state')!.split(',').includes(run.state)) && (!query.get('tag') || run.tags.includes(query.get('tag')!))
    && (!query.get('search') || [run.name, run.recipe, run.env].join(' ').includes(query.get('search')!));
  const found = runs.filter(has);
  const [offset, limit] = [Number(query.get('offset') ?? 0), Number(query.get('limit') ?? 100)];
  return { runs: found.slice(offset, offset + limit), total: found.length, sequence: 1 };
}

const GET: [RegExp, Answer][] = [
  [/^\/api\/system$/, () => ({ version: '0.1.0', pid: 4711, started_at: Date.now() / 1000 - 5400, cores: 2, memory: { total: 24e9, available: 17e9 }, gpus: [], slots: { cpus: 2, gpus: 0, memory: 20000, used: { cpus: 2, gpus: 0, memory: 3000 } }, queued: 1, running: 2, disk: { path: '/runs', total: 500e9, free: 212e9 }, ray: { configured: false, address: null }, executors: ['local', 'ray'], kinds: ['native', 'evaluate'], runs_root: '/home/ada/runs' })],
  [/^\/api\/discoveries$/, () => ({ known_as_of: '2026-07', known: [{ format: '2x2x2', naive: 8, gf2: 7, zt: 7, z: 7, q: 7, additions: 15 }], discoveries: [FOUND], damaged: [] })],
  [/^\/api\/discoveries\/[^/]+$/, () => ({ ...FOUND, formulas: ['m1 = (a11 + a22) * (b11 + b22)', 'c11 = m1 + m4 - m5 + m7'], straight_line: ['s1 = a21 + a22'], code: 'def multiply_2x2x2(a, b):\n    ...', machine: { cpu: 'made up' }, benchmarks: [] })],
  [/^\/api\/recipes$/, () => ({ recipes: [['cartpole', 'CartPole-v1, solved in a minute'], ['arena.basic', 'Arena with walls and batteries'], ['lunarlander', 'LunarLander-v3 in a quarter of an hour']].map(([name, summary]) => ({ name, summary, env: name, kind: 'native', missing_extra: name === 'lunarlander' ? 'box2d' : null })) })],
  [/^\/api\/kinds\/[^/]+\/form$/, () => realForm()],
  [/^\/api\/runs$/, (_, query) => list(query)],
  [/^\/api\/runs\/([^/]+)$/, ([id]) => ({ run: find(id), request: { kind: 'native', recipe: find(id).recipe, config: { total_steps: 200000, ppo: { gamma: 0.98 } }, submitted_by: 'web' }, config: realForm()['defaults'], command: `palaestra train ${find(id).recipe} total_steps=200000 ppo.gamma=0.98`, environment: { versions: { palaestra: '0.1.0', torch: '2.9.1' }, git: { commit: '987ed47' } }, failure: find(id).failure ? { message: find(id).failure, signal: '', log_tail: LINES.slice(-5) } : null })],
  [/^\/api\/runs\/([^/]+)\/metrics$/, ([id]) => ({ names: METRICS, last: Object.fromEntries(METRICS.map((name) => [name, { step: find(id).agent_step, value: makeSeries(find(id), name, 1, 0, 1e12, false).mean[0] ?? null }])) })],
  [/^\/api\/metrics$/, (_, query) => packColumns(query.getAll('run').flatMap((id) => query.getAll('name').map((name) => makeSeries(find(id), name, Number(query.get('buckets')), Number(query.get('from') ?? 0), Number(query.get('to') ?? 1e12), query.get('axis') === 'elapsed'))))],
  [/^\/api\/sparklines$/, (_, query) => ({ series: query.getAll('run').map((id) => makeSeries(find(id), METRICS[0]!, 40, 0, 1e12, false)) })],
  [/^\/api\/runs\/([^/]+)\/checkpoints$/, ([id]) => ({ checkpoints: [10, 20, 30, 40].map((epoch) => ({ epoch, agent_step: epoch * 2000, score: epoch > 10 ? epoch * 9.7 : null, avg_reward: epoch * 9, created_at: find(id).created_at + epoch * 9, bytes: 84213, is_best: epoch === 40, is_latest: epoch === 40, metrics: {} })), refused: [] })],
  [/^\/api\/runs\/([^/]+)\/evaluations$/, () => ({ batches: [1, 2, 3].map((batch) => ({ batch, epoch: 40, episodes: 50, avg: 112.3 + batch, min: 90.1, max: 142.6, std: 11.2, seconds: 4.2, suite: 'default', complete: batch !== 3, at: Date.now() / 1000 - 900 + batch * 60 })) })],
  [/^\/api\/runs\/([^/]+)\/(videos|replays|artifacts)$/, ([, shelf]) => ({ [shelf!]: shelf === 'artifacts' ? [{ name: 'learning-curve.png', bytes: 48211, created_at: 1.79e9 }] : [] })],
  [/^\/api\/runs\/([^/]+)\/log$/, (_, query) => { const text = query.has('from') ? '' : LINES.join('\n') + '\n'; return { text, from: 0, next: 40000, size: 40000 }; }],
  [/^\/api\/runs\/([^/]+)\/journal$/, () => ({ entries: [{ number: 1, at: 1.79e9, event: 'run.started', level: 'info', rank: 0, data: {} }], next: 1, total: 1 })],
  [/^\/api\/runs\/([^/]+)\/diff$/, () => ({ differences: [{ key: 'ppo.gamma', here: 0.98, there: 0.99 }, { key: 'seed', here: 1, there: 2 }] })],
];

const POST: [RegExp, Answer][] = [
  [/^\/api\/log(in|out)$/, (_, __, body) => (body['token'] === 'wrong' ? refuse(401, 'That is not the token.') : {})],
  [/^\/api\/requests\/check$/, (_, __, body) => check(body as unknown as RunRequest)],
  [/^\/api\/requests\/parse$/, (_, __, body) => ({ config: JSON.parse(String(body['yaml'])) as Json })],
  [/^\/api\/runs$/, () => ({ run: runs[0] })],
  [/^\/api\/runs\/([^/]+)\/(stop|cancel|retry|clone|evaluate)$/, ([id, action]) => { const run = find(id); if (action === 'stop') run.state = 'stopping'; return { run }; }],
  [/^\/api\/runs\/([^/]+)\/change$/, ([id], __, body) => ({ run: Object.assign(find(id), body) })],
];

async function answer(request: IncomingMessage, response: ServerResponse, next: () => void): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://mock');
  if (!url.pathname.startsWith('/api/')) return next();
  let text = '';
  for await (const part of request) text += String(part);
  const path = request.method === 'PATCH' ? `${url.pathname}/change` : url.pathname;
  const table = request.method === 'GET' ? GET : POST;
  const [pattern, handler] = table.find(([one]) => one.test(path)) ?? [/$/, () => refuse(404, `Nothing is at ${url.pathname}.`)];
  try {
    const body = handler(pattern.exec(path)!.slice(1), url.searchParams, (text ? JSON.parse(text) : {}) as Nested);
    if (body instanceof Buffer) response.setHeader('Content-Type', 'application/octet-stream').end(body);
    else response.setHeader('Content-Type', 'application/json').end(JSON.stringify(body));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    response.writeHead(error.status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ error: { message: error.message, hint: '', fields: error.fields } }));
  }
}

function tick(): void {
  for (const run of runs.filter((one) => one.state === 'running')) {
    run.agent_step = Math.min(run.total_steps, run.agent_step + 2000);
    run.progress = run.agent_step / run.total_steps;
    run.updated_at = Date.now() / 1000;
    sockets.send({ sequence: Math.floor(run.updated_at), type: 'run', run });
  }
}

export function mockDaemon(): Plugin {
  return {
    name: 'palaestra-mock',
    configureServer(server: ViteDevServer) {
      server.middlewares.use((request, response, next) => void answer(request, response, next));
      server.httpServer?.on('upgrade', (request: IncomingMessage, socket) => {
        if (request.url?.startsWith('/api/events')) sockets.accept(request, socket);
      });
      setInterval(tick, 1000).unref();
    },
  };
}
