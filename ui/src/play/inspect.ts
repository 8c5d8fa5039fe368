// What a checkpoint says of itself, and the order to let it play.
import { ApiError, type EvaluationOrder } from '../lib/api.ts';
import { address, get, post } from '../lib/http.ts';
import type { Checkpoint, Json, Run } from '../lib/types.ts';

type Mapping = { [key: string]: Json };

export interface Inspected {
  target: string; // RUN:EPOCH
  checkpoint: Omit<Checkpoint, 'is_best' | 'is_latest'> & { run: string; run_name: string; total_time: number | null; git_commit: string };
  env: Mapping;
  policy: Mapping;
  interface: Mapping | null;
  seed: number;
  normalisers: { observations: boolean; returns: boolean };
  suite: Json;
  versions: Mapping;
  tensors: { name: string; dtype: string; shape: number[] }[];
}

export const inspect = (target: string) => get<Inspected>('/api/checkpoints/inspect', { target });

export interface PlayOrder extends EvaluationOrder {
  seed?: number;
  replays?: boolean;
  suite?: string;
  overrides?: Mapping;
}

export const letPlay = async (run: string, order: PlayOrder) =>
  (await post<{ run: Run }>(`/api/runs/${encodeURIComponent(run)}/evaluate`, order)).run;

const LARGEST = 1 << 30; // bytes

/** One zip, or a sidecar and its weights, which go one behind the other. */
export function parcel(files: readonly File[]): { body: Blob; type: string } | string {
  const total = files.reduce((sum, file) => sum + file.size, 0);
  if (total > LARGEST) return 'That is more than a gibibyte; such a file goes into the runs directory by hand.';
  const [zip, sidecar, weights] = ['.zip', '.yaml', '.safetensors'].map((end) => files.find((file) => file.name.toLowerCase().endsWith(end)));
  if (zip && files.length === 1) return { body: zip, type: 'application/zip' };
  if (sidecar && weights && files.length === 2) return { body: new Blob([sidecar, weights]), type: 'application/octet-stream' };
  if (files.some((file) => /\.(pt|pth|pkl|pickle)$/i.test(file.name))) return 'A pickled module could run anything, so it is refused. Convert it first: palaestra convert FILE';
  return 'Choose the zip that “Download” gives, or a model_….yaml together with its model_….safetensors.';
}

export async function upload(files: readonly File[]): Promise<string> {
  const made = parcel(files);
  if (typeof made === 'string') throw new ApiError(422, made);
  const response = await fetch(address('/api/checkpoints'), { method: 'POST', credentials: 'same-origin', body: made.body, headers: { 'Content-Type': made.type } });
  const answer = (await response.json()) as { target?: string; error?: { message: string; hint: string } };
  if (!response.ok || !answer.target) throw new ApiError(response.status, answer.error?.message ?? `The daemon answered ${response.status}.`, answer.error?.hint ?? '');
  return answer.target;
}

/** Settings as people read and change them: `max_steps: 100`, one a line, values as JSON. */
export function parameterCount(tensors: Inspected['tensors']): number {
  return tensors.reduce((sum, { shape }) => sum + shape.reduce((product, side) => product * side, 1), 0);
}
