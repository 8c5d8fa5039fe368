// What a checkpoint says of itself, and the order to evaluate it.
import { ApiError } from '../lib/api.ts';
import type { ErrorResponse, Normalisers, OneRun, Tensor, UploadedCheckpoint } from '../lib/api_types.ts';
import { address, get, post } from '../lib/http.ts';
import type { EvaluateBody, InspectedCheckpoint } from '../lib/types.ts';

export const inspect = (target: string) => get<InspectedCheckpoint>('/api/checkpoints/inspect', { target });

export const letPlay = async (run: string, order: EvaluateBody) =>
  (await post<OneRun>(`/api/runs/${encodeURIComponent(run)}/evaluate`, order)).run;

const LARGEST = 1 << 30; // bytes

/** One zip, or a sidecar and its weights, which go one behind the other. */
export function uploadBody(files: readonly File[]): { body: Blob; type: string } | string {
  const total = files.reduce((sum, file) => sum + file.size, 0);
  if (total > LARGEST) return 'Files above 1 GiB cannot be uploaded; copy them into the runs directory.';
  const [zip, sidecar, weights] = ['.zip', '.yaml', '.safetensors'].map((end) => files.find((file) => file.name.toLowerCase().endsWith(end)));
  if (zip && files.length === 1) return { body: zip, type: 'application/zip' };
  if (sidecar && weights && files.length === 2) return { body: new Blob([sidecar, weights]), type: 'application/octet-stream' };
  if (files.some((file) => /\.(pt|pth|pkl|pickle)$/i.test(file.name))) return 'Pickled modules can execute code and are refused. Convert it first: palaestra convert FILE';
  return 'Choose a downloaded zip, or a model_….yaml together with its model_….safetensors.';
}

export async function upload(files: readonly File[]): Promise<string> {
  const made = uploadBody(files);
  if (typeof made === 'string') throw new ApiError(422, made);
  const response = await fetch(address('/api/checkpoints'), { method: 'POST', credentials: 'same-origin', body: made.body, headers: { 'Content-Type': made.type } });
  const body = (await response.json()) as Partial<UploadedCheckpoint & ErrorResponse>;
  if (!response.ok || !body.target) throw new ApiError(response.status, body.error?.message ?? `The daemon returned ${response.status}.`, body.error?.hint ?? '');
  return body.target;
}

export function describeNormalisers({ observations, returns, copies }: Normalisers): string {
  const each = copies > 1 ? `observations (${copies}, one for each environment)` : 'observations';
  return [observations ? each : '', returns ? 'returns' : ''].filter(Boolean).join(', ') || 'none';
}

export function parameterCount(tensors: readonly Tensor[]): number {
  return tensors.reduce((sum, { shape }) => sum + shape.reduce((product, side) => product * side, 1), 0);
}
