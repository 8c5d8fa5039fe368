// The words of the daemon's API, as docs/api.md says them. Times are seconds since 1970, sizes bytes.

export const STATES = ['queued', 'running', 'stopping', 'finished', 'failed', 'cancelled', 'lost'] as const;
export type State = (typeof STATES)[number];

export interface Run {
  id: string;
  name: string;
  kind: string;
  recipe: string;
  state: State;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  updated_at: number | null;
  epoch: number;
  agent_step: number;
  total_steps: number;
  progress: number | null; // 0..1
  exit_code: number | null;
  failure: string;
  summary: Record<string, number | null>;
  tags: string[];
  note?: string;
  group: string; // equal for runs that differ in their seed only
  seed: number | null;
  env: string | null;
  priority: number;
  asked_by: string;
  executor: string;
  nproc: number;
  parent: string | null;
  is_live: boolean;
  is_silent?: boolean; // no heartbeat for a while
  queue_position: number | null;
}

export interface RunPage {
  runs: Run[];
  total: number;
  sequence: number;
  boot?: string;
}

export interface Failure {
  message: string;
  signal: string;
  log_tail: string[];
}

export interface RunDetail {
  run: Run;
  request: { [key: string]: Json } | null;
  config: { [key: string]: Json } | null;
  command: string;
  environment: { [key: string]: Json } | null;
  failure: Failure | null;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface FieldError {
  key: string;
  message: string;
  hint: string;
}

export interface Series {
  run: string;
  name: string;
  x: number[];
  min: (number | null)[];
  max: (number | null)[];
  mean: (number | null)[];
  count: number[];
  bad?: number[]; // how many in each stretch were not numbers
}

export type Axis = 'step' | 'time';

export interface MetricNames {
  names: string[];
  last: Record<string, { step: number; value: number | null }>;
}

export interface Checkpoint {
  epoch: number;
  agent_step: number;
  score: number | null;
  avg_reward: number | null;
  created_at: number;
  bytes: number;
  is_best: boolean;
  is_latest: boolean;
  metrics: Record<string, number | null>;
}

export interface Checkpoints {
  checkpoints: Checkpoint[];
  refused: { file: string; reason: string }[];
}

export interface Batch {
  batch: number;
  epoch: number;
  episodes: number;
  avg: number | null;
  min: number | null;
  max: number | null;
  std: number | null;
  seconds: number | null;
  suite: string;
  complete: boolean;
  at: number;
}

export interface StoredFile {
  name: string;
  bytes: number;
  created_at: number;
}

export interface LogPart {
  text: string;
  from: number;
  next: number;
  size: number;
  streams?: string[];
}

export interface JournalEntry {
  number: number;
  at: number;
  event: string;
  level: string;
  rank: number;
  data: { [key: string]: Json };
}

export interface JournalPart {
  entries: JournalEntry[];
  next: number;
  total: number;
}

export interface Difference {
  key: string;
  here: Json;
  there: Json;
  only?: 'here' | 'there' | '';
}

export interface System {
  version: string;
  pid: number;
  started_at: number;
  cores: number;
  memory: { total: number; available: number };
  cpu?: string;
  load?: number[];
  gpus: string[];
  slots: { cpus: number; gpus: number; memory: number; used: { cpus: number; gpus: number; memory: number } }; // memory in MB
  queued: number;
  queue_limit?: number;
  running: number;
  disk: { path: string; total: number | null; free: number | null };
  ray: { configured: boolean; address: string | null };
  executors: string[];
  kinds: string[];
  runs_root: string;
}

export type { Checked, Form, Recipe, RunRequest, Schema } from './form_types.ts';
