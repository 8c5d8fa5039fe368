// One way to the daemon: JSON in and out, every refusal an ApiError that can be shown where it happened.
import type { ErrorResponse, FieldError, Json } from './api_types.ts';

export const AWAY = 0; // no answer at all: the daemon is not there

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string = '',
    readonly fields: FieldError[] = [],
  ) {
    super(message);
  }

  get isAway(): boolean {
    return this.status === AWAY;
  }
}

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;
type Listener = (status: number) => void;

let listener: Listener = () => undefined;

/** Told of every answer's status: the session learns from it that a token is missing or the daemon away. */
export function onStatus(told: Listener): void {
  listener = told;
}

export function address(path: string, query: Query = {}): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [value]) words.append(name, String(one));
  }
  const text = words.toString();
  return text ? `${path}?${text}` : path;
}

async function refusal(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  const error = (body as Partial<ErrorResponse> | null)?.error; // a proxy on the way may answer anything
  const message = error?.message ?? `The daemon returned ${response.status} ${response.statusText}.`;
  return new ApiError(response.status, message, error?.hint ?? '', error?.fields ?? []);
}

async function answer(method: string, url: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, credentials: 'same-origin' };
  if (signal) init.signal = signal;
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { 'Content-Type': 'application/json' };
  }
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    listener(AWAY);
    throw new ApiError(AWAY, 'The daemon does not respond.', 'Start it again with: palaestra serve');
  }
  listener(response.status);
  if (!response.ok) throw await refusal(response);
  return response;
}

async function ask<T>(method: string, url: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await answer(method, url, body, signal);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return ask<T>('GET', address(path, query), undefined, signal);
}

export async function getBytes(path: string, query: Query = {}, signal?: AbortSignal): Promise<ArrayBuffer> {
  return (await answer('GET', address(path, query), undefined, signal)).arrayBuffer();
}

export function post<T>(path: string, body: Json | object = {}, signal?: AbortSignal): Promise<T> {
  return ask<T>('POST', path, body, signal);
}

export function patch<T>(path: string, body: object): Promise<T> {
  return ask<T>('PATCH', path, body);
}

export function remove(path: string): Promise<void> {
  return ask<undefined>('DELETE', path, undefined);
}

/** Whether a failure is only our own change of mind. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}
