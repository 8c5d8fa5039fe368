// Every question the page asks, with the type of its answer.
import { readColumns } from './columns.ts';
import { address, get, getBytes, patch, post, remove } from './http.ts';
import type {
  ArtifactList, CheckoutList, Clusters, EvaluationList, OneRun, ParsedRequest, RecipeList, ReplayList, SeriesList, TensorBoardPage, VideoList, ConfigDifferences,
} from './api_types.ts';
import type {
  Axis, CheckedRequest, CheckpointList, EvaluateBody, Form, JournalPart, Json, LogPart, MetricNames, RunDetail, RunGroupPage, RunPage, RunRequest, System,
} from './types.ts';

export { ApiError, isAbort } from './http.ts';

export interface RunQuery {
  state?: string | string[];
  search?: string;
  tag?: string;
  kind?: string;
  group?: string;
  run?: readonly string[];
  sort?: string;
  order?: 'asc' | 'desc';
  limit?: number;
  offset?: number;
}

export interface MetricQuery {
  runs: readonly string[];
  names: readonly string[];
  buckets: number;
  axis: Axis;
  from?: number | null;
  to?: number | null;
}

const of = (id: string) => `/api/runs/${encodeURIComponent(id)}`;
export type Nested = { [key: string]: Json };

export const login = (token: string) => post<undefined>('/api/login', { token });
export const logout = () => post<undefined>('/api/logout');
export const system = () => get<System>('/api/system');
export const clusters = async () => (await get<Clusters>('/api/clusters')).clusters;
export const recipes = async () => (await get<RecipeList>('/api/recipes')).recipes;

export const form = (kind: string, recipe: string, run: string, script = '', algorithm = '') =>
  get<Form>(`/api/kinds/${encodeURIComponent(kind)}/form`, { recipe, run, script, algorithm });
export const checkouts = async (kind: string) => (await get<CheckoutList>(`/api/kinds/${encodeURIComponent(kind)}/checkouts`)).checkouts;
export const addCheckout = async (kind: string, path: string) =>
  (await post<CheckoutList>(`/api/kinds/${encodeURIComponent(kind)}/checkouts`, { path })).checkouts;
export const check = (request: RunRequest, signal: AbortSignal) =>
  post<CheckedRequest>('/api/requests/check', request, signal);
export const parse = async (yaml: string) => (await post<ParsedRequest>('/api/requests/parse', { yaml })).config;

export const runs = (query: RunQuery, signal?: AbortSignal) => get<RunPage>('/api/runs', { ...query }, signal);
export const runGroups = (query: RunQuery, signal?: AbortSignal) => get<RunGroupPage>('/api/run-groups', { ...query }, signal);
export const submit = async (request: RunRequest) => (await post<OneRun>('/api/runs', request)).run;
export const run = (id: string) => get<RunDetail>(of(id));
export const change = async (id: string, what: { tags?: string[]; note?: string }) =>
  (await patch<OneRun>(of(id), what)).run;
export const act = async (id: string, action: 'stop' | 'cancel' | 'retry', how: { grace_seconds?: number } = {}) =>
  (await post<OneRun>(`${of(id)}/${action}`, how)).run;
export const clone = async (id: string, changes: { name?: string; config?: Nested } = {}) =>
  (await post<OneRun>(`${of(id)}/clone`, changes)).run;
export const evaluate = async (id: string, order: EvaluateBody) =>
  (await post<OneRun>(`${of(id)}/evaluate`, order)).run;
export const invalidate = (id: string) => remove(of(id));

export const metricNames = (id: string) => get<MetricNames>(`${of(id)}/metrics`);
export const series = async (query: MetricQuery, signal?: AbortSignal) => {
  const { runs: run, names: name, buckets, from, to } = query;
  const axis = query.axis === 'time' ? 'elapsed' : query.axis; // every run began at a time of its own
  return readColumns(await getBytes('/api/metrics', { run, name, buckets, axis, from, to, form: 'columns' }, signal));
};
export const sparklines = async (ids: readonly string[], name: string) =>
  (await get<SeriesList>('/api/sparklines', { run: ids, name })).series;

export const checkpoints = (id: string, signal?: AbortSignal) => get<CheckpointList>(`${of(id)}/checkpoints`, {}, signal);
export const checkpointFile = (id: string, epoch: number) => `${of(id)}/checkpoints/${epoch}/download`;
export const batches = async (id: string, signal?: AbortSignal) =>
  (await get<EvaluationList>(`${of(id)}/evaluations`, {}, signal)).batches;
export const videos = async (id: string, signal?: AbortSignal) =>
  (await get<VideoList>(`${of(id)}/videos`, {}, signal)).videos;
export const replays = async (id: string, signal?: AbortSignal) =>
  (await get<ReplayList>(`${of(id)}/replays`, {}, signal)).replays;
export const artifacts = async (id: string, signal?: AbortSignal) =>
  (await get<ArtifactList>(`${of(id)}/artifacts`, {}, signal)).artifacts;
export const fileOf = (id: string, shelf: 'videos' | 'replays' | 'artifacts', name: string) =>
  `${of(id)}/${shelf}/${encodeURIComponent(name)}`;
export const log = (id: string, where: { stream: string; tail?: number; from?: number; limit?: number }) =>
  get<LogPart>(`${of(id)}/log`, { ...where });
export const journal = (id: string, after: number, limit: number) => get<JournalPart>(`${of(id)}/journal`, { after, limit });
export const tensorboard = async (ids: string[]) => (await post<TensorBoardPage>('/api/tensorboard', { runs: ids })).path;
export const diff = async (id: string, other: string) =>
  (await get<ConfigDifferences>(`${of(id)}/diff`, { other })).differences;

/** Where the event socket is; the browser keeps the cookie to it. */
export function eventsAddress(after: number | null, boot: string): string {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  return `${scheme}://${location.host}${address('/api/events', { after, boot })}`;
}
