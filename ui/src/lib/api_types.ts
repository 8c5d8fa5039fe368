// Generated from the API's schema by `make api-types`; do not edit.
// Times are seconds since 1970, sizes bytes.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Amount {
  cpus: number;
  gpus: number;
  memory: number;
}

export interface ArtifactList {
  artifacts: StoredFile[];
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
  capped: number;
  evaluation: string;
  at: number;
}

/** A benchmark of a dtype and a size: the scheme and the baselines. */
export interface BenchmarkCell {
  dtype: string;
  detail: string;
  size: number;
  levels: number;
  seconds: number;
  baseline: string;
  baseline_seconds: number | null;
  gain: number | null;
  kernel_gain: number | null;
  algorithm_gain: number;
  error: number | null;
  baseline_error: number | null;
  is_exact: boolean | null;
  others: Record<string, number>;
  result: string;
}

export interface ChangeBody {
  tags?: string[] | null; // all tags, replacing the present ones
  note?: string | null; // free text
  priority?: number | null; // of a queued run; higher starts first
}

export interface CheckedRequest {
  errors: FieldError[];
  config: { [key: string]: Json } | null;
  yaml: string;
  command: string;
}

/** A directory with scripts, such as a checkout of CleanRL. */
export interface Checkout {
  path: string;
  scripts: OfferedScript[];
}

export interface CheckoutBody {
  path: string; // folder of a checkout
}

export interface CheckoutList {
  checkouts: Checkout[];
}

export interface CheckpointList {
  checkpoints: ListedCheckpoint[];
  refused: RefusedFile[];
}

export interface CheckpointSummary {
  epoch: number;
  agent_step: number;
  score: number | null;
  avg_reward: number | null;
  created_at: number;
  total_time: number | null;
  run: string;
  run_name: string;
  bytes: number;
  metrics: Record<string, number | null>;
  git_commit: string;
}

export interface CloneBody {
  name?: string; // of the new run; empty: a generated name
  config?: { [key: string]: Json }; // settings to override, nested
}

export interface Cluster {
  address: string;
  is_refreshing: boolean;
  checked_at: number | null;
  nodes: ClusterNode[];
  jobs: ClusterWork[];
  error: string | null;
  hint: string | null;
}

export interface ClusterNode {
  host: string;
  address: string;
  state: string;
  is_head: boolean;
  cpus: number;
  cpus_used: number;
  gpus: number;
  gpus_used: number;
  versions: Record<string, string>;
  code: string;
  differences: string[];
  last_sign_seconds: number | null;
  reason: string;
}

export interface ClusterWork {
  address: string;
  pid: number;
  command: string;
}

export interface Clusters {
  clusters: Cluster[];
}

export interface ConfigDifference {
  key: string;
  here: Json;
  there: Json;
  only: "here" | "there" | "";
}

export interface ConfigDifferences {
  here: string;
  there: string;
  differences: ConfigDifference[];
}

export interface Disk {
  path: string;
  total: number | null;
  free: number | null;
}

export interface DiskUse {
  bytes: number;
  parts: Record<string, number>;
}

export interface ErrorDetails {
  message: string;
  hint: string;
  fields: FieldError[];
}

export interface ErrorMessage {
  error: ErrorDetails;
  type: "error";
}

export interface ErrorResponse {
  error: ErrorDetails;
}

export interface EvaluateBody {
  selector?: string; // best, latest or an epoch
  suite?: string; // by name
  episodes?: number | null;
  repeat?: boolean;
  video?: boolean;
  replays?: boolean; // record each episode, where the environment can be replayed
  deterministic?: boolean | null;
  seed?: number | null; // of the first episode; null: that of the suite
  overrides?: { [key: string]: Json }; // settings of the environment
  name?: string;
}

export interface EvaluatedEpisodes {
  rows: { [key: string]: Json }[];
}

export interface EvaluationList {
  batches: Batch[];
  files: StoredFile[];
}

export interface Failure {
  message: string;
  signal: string;
  log_tail: string[];
}

/** One error in one field of a request. */
export interface FieldError {
  key: string;
  message: string;
  hint: string;
  exit_code: number;
}

export interface FollowBody {
  run: string;
  log?: boolean;
  metrics?: boolean;
}

export interface FollowMessage {
  follow: FollowBody | null;
}

export interface Form {
  schema: { [key: string]: Json };
  defaults: { [key: string]: Json };
  keys: SettingKey[];
  recipe: string;
}

/** One algorithm, without its formulas. */
export interface FoundScheme {
  id: string;
  format: string;
  field: string;
  field_meaning: string;
  holds_over: string[];
  rank: number;
  naive_rank: number;
  known: number | null;
  comparison: "matches" | "above" | "below" | "unknown";
  known_as_of: string;
  additions_naive: number;
  additions_eliminated: number;
  additions_known: number | null;
  largest_coefficient: number;
  fingerprint: string;
  canonical: string;
  run: string;
  method: string;
  seed: number | null;
  step: number | null;
  wall_seconds: number | null;
  cpu_seconds: number | null;
  found_at: number | null;
  source: string;
  license: string;
  imported_file: string;
  origin: string;
  parents: string[];
  benchmark_count: number;
  file: string;
}

export interface HelloMessage {
  type: "hello";
  sequence: number;
  boot: string;
  missed: boolean;
}

export interface Hud {
  line: string;
  role: string;
  roles: string[];
  slots: number;
  step: number | null;
  steps_per_second: number | null;
  cost: number | null;
  sent: number;
  skipped: number;
  dropped: number;
  evaluation?: string;
}

export interface InspectedCheckpoint {
  target: string;
  checkpoint: CheckpointSummary;
  env: { [key: string]: Json };
  policy: { [key: string]: Json };
  interface: { [key: string]: Json };
  seed: number;
  normalisers: Normalisers;
  suite: Json;
  versions: Record<string, string>;
  tensors: Tensor[];
}

export interface JournalEvent {
  number: number;
  at: number;
  event: string;
  level: string;
  rank: number;
  data: { [key: string]: Json };
}

export interface JournalPart {
  entries: JournalEvent[];
  next: number;
  total: number;
}

/** The best known ranks of one format, by field; a missing field has no known rank. */
export interface KnownRank {
  format: string;
  naive: number;
  gf2?: number;
  zt?: number;
  z?: number;
  q?: number;
  z3?: number;
  qi?: number;
  additions?: number;
}

export interface LastPoint {
  step: number;
  value: number | null;
}

export interface LimitsBody {
  memory?: number; // MB; a run that exceeds it is stopped; 0: no limit
  log?: number | null; // maximum bytes of stored output
  grace?: number | null; // seconds between a stop and the kill
}

export interface ListedCheckpoint {
  epoch: number;
  agent_step: number;
  score: number | null;
  avg_reward: number | null;
  created_at: number;
  total_time: number | null;
  run: string;
  run_name: string;
  bytes: number;
  metrics: Record<string, number | null>;
  git_commit: string;
  is_best: boolean;
  is_latest: boolean;
}

export interface LiveHud {
  hud: Hud;
}

export interface LiveState {
  state: "unavailable" | "connected" | "stale" | "failed" | "closed";
  reason: string;
  role: string;
}

export interface LogMessage {
  type: "log";
  run: string;
  text: string;
  from: number;
  next: number;
}

export interface LogPart {
  text: string;
  from: number;
  next: number;
  size: number;
  stream: string;
  streams: string[];
}

export interface LoginBody {
  token: string;
}

export interface LoginLink {
  link: string;
}

export interface MatchError {
  message: string;
  hint: string;
}

/** What the process of a match publishes; one of these at a time. */
export interface MatchMessage {
  ready?: MatchReady;
  round?: MatchRound;
  ended?: MatchResult;
  newer?: NewerCheckpoint;
  error?: MatchError;
}

export interface MatchPlan {
  seats: SeatPlan[];
  env_of?: string; // the checkpoint whose environment is played; default: the first
  seed?: number; // of the first round; later rounds count up
  pace?: number; // steps per second; 0: one step per key press
  rounds?: "together" | "apart"; // apart: seats start their episodes alone
  deterministic?: boolean; // the most likely action instead of a sampled one
  follow?: boolean; // newer checkpoints take over at the start of a round
}

export interface MatchReady {
  env: string;
  players: number;
  actions: number | null;
  seats: MatchSeat[];
}

export interface MatchResult {
  seat: number;
  seed: number;
  return: number;
  length: number;
}

export interface MatchRound {
  seed: number;
}

export interface MatchSeat {
  player: string;
  agent: number | null;
  run: string | null;
  epoch: number | null;
}

export interface Memory {
  total: number;
  available: number;
}

export interface MetricNames {
  names: string[];
  last: Record<string, LastPoint>;
}

export interface MetricPoint {
  row: number;
  step: number;
  name: string;
  value: number | null;
}

export interface MetricTail {
  points: MetricPoint[];
  row: number;
}

export interface MetricsMessage {
  type: "metrics";
  run: string;
  points: MetricPoint[];
  row: number;
}

export interface NewerCheckpoint {
  target: string;
  epoch: number;
}

export interface Normalisers {
  observations: boolean;
  returns: boolean;
  copies: number;
}

/** A script that a form offers; its source is parsed, not run. */
export interface OfferedScript {
  path: string;
  name: string;
  algorithm: string;
  actions: string;
  missing_packages: string[];
}

export interface OneRun {
  run: Run;
}

export interface ParsedRequest {
  config: { [key: string]: Json };
}

export interface RaySetup {
  configured: boolean;
  address: string | null;
}

export interface Recipe {
  name: string;
  summary: string;
  env: string;
  kind: string;
  algorithms: string[];
  total_steps: number;
  missing_extra: string | null;
}

export interface RecipeList {
  recipes: Recipe[];
}

export interface RefusedFile {
  file: string;
  reason: string;
}

export interface RemovedMessage {
  type: "removed";
  sequence: number;
  run: RemovedRun;
}

export interface RemovedRun {
  id: string;
}

export interface ReplayList {
  replays: StoredFile[];
}

export interface Run {
  id: string;
  name: string;
  kind: string;
  recipe: string;
  state: RunState;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  updated_at: number | null;
  epoch: number;
  agent_step: number;
  total_steps: number;
  progress: number | null;
  exit_code: number | null;
  failure: string;
  summary: Record<string, number | null>;
  tags: string[];
  note: string;
  group: string;
  seed: number | null;
  env: string | null;
  priority: number;
  submitted_by: string;
  executor: string;
  nproc: number;
  attempt: number;
  parent: string | null;
  is_live: boolean;
  is_silent: boolean;
  queue_position: number | null;
}

/** The body of a submission, the same for browser, command line and Python. */
export interface RunBody {
  kind?: string; // worker kind
  recipe?: string; // name; empty: the defaults
  config?: { [key: string]: Json }; // settings that override the recipe, nested
  name?: string; // empty: a generated name
  executor?: string; // what starts its processes
  nproc?: number; // number of training processes
  priority?: number; // higher starts first
  limits?: LimitsBody;
  submitted_by?: string; // empty: how the caller signed in
  command?: string; // the command line of the request; empty: generated
}

export interface RunDetail {
  run: Run;
  request: { [key: string]: Json } | null;
  config: { [key: string]: Json } | null;
  command: string;
  environment: { [key: string]: Json } | null;
  failure: Failure | null;
  disk: DiskUse;
}

/** Runs whose configs differ only in the seed; statistics are over those that match the filter. */
export interface RunGroup {
  key: string;
  name: string;
  first: Run;
  ids: string[];
  seed_count: number;
  states: Record<string, number>;
  returns: Spread | null;
  scores: Spread | null;
}

export interface RunGroupPage {
  groups: RunGroup[];
  total: number;
  run_total: number;
  sequence: number;
  boot: string;
}

export interface RunMessage {
  type: "run";
  sequence: number;
  change: string;
  run: Run;
}

export interface RunPage {
  runs: Run[];
  total: number;
  sequence: number;
  boot: string;
}

export type RunState = "queued" | "running" | "stopping" | "finished" | "failed" | "cancelled" | "lost";

export interface SchemeBenchmark {
  id: string;
  made_at: number;
  cpu: string;
  threads: number;
  hardware: { [key: string]: Json };
  software: Record<string, string>;
  products_checked: number;
  crossovers: Record<string, number | null>;
  cells: BenchmarkCell[];
}

export interface SchemeDetail {
  id: string;
  format: string;
  field: string;
  field_meaning: string;
  holds_over: string[];
  rank: number;
  naive_rank: number;
  known: number | null;
  comparison: "matches" | "above" | "below" | "unknown";
  known_as_of: string;
  additions_naive: number;
  additions_eliminated: number;
  additions_known: number | null;
  largest_coefficient: number;
  fingerprint: string;
  canonical: string;
  run: string;
  method: string;
  seed: number | null;
  step: number | null;
  wall_seconds: number | null;
  cpu_seconds: number | null;
  found_at: number | null;
  source: string;
  license: string;
  imported_file: string;
  origin: string;
  parents: string[];
  benchmark_count: number;
  file: string;
  formulas: string[];
  straight_line: string[];
  code: string;
  machine: { [key: string]: Json };
  benchmarks: SchemeBenchmark[];
}

export interface SchemeList {
  known_as_of: string;
  known: KnownRank[];
  discoveries: FoundScheme[];
  damaged: string[];
}

/** One environment. A person plays one of its agents; `others` plays the rest. */
export interface SeatPlan {
  player: string; // RUN:EPOCH and the like, 'random' or 'person'
  others?: string; // beside a person: RUN:EPOCH or 'random'
  agent?: number; // the agent that the person plays
}

/** A downsampled series: every list has one entry for each bucket. */
export interface Series {
  run: string;
  name: string;
  x: number[];
  min: (number | null)[];
  max: (number | null)[];
  mean: (number | null)[];
  count: number[];
  bad: number[];
}

export interface SeriesList {
  series: Series[];
}

export interface SettingKey {
  key: string;
  help: string;
  default: Json;
  type: string;
  choices: Json[];
  limits: string;
}

export interface Slots {
  cpus: number;
  gpus: number;
  memory: number;
  used: Amount;
}

export interface Spread {
  mean: number;
  low: number;
  high: number;
  count: number;
}

export interface StopBody {
  grace_seconds?: number | null; // before its processes are killed
}

export interface StoredFile {
  name: string;
  bytes: number;
  created_at: number;
}

export interface System {
  load: number[];
  memory: Memory;
  slots: Slots;
  queued: number;
  queue_limit: number;
  running: number;
  version: string;
  pid: number;
  is_healthy: boolean;
  boot: string;
  started_at: number;
  cores: number;
  cpu: string;
  gpus: string[];
  disk: Disk;
  ray: RaySetup;
  executors: string[];
  kinds: string[];
  runs_root: string;
}

export interface SystemMessage {
  load: number[];
  memory: Memory;
  slots: Slots;
  queued: number;
  queue_limit: number;
  running: number;
  type: "system";
}

export interface Tensor {
  name: string;
  dtype: string;
  shape: number[];
}

export interface TensorBoardBody {
  runs: string[]; // runs to show
}

export interface TensorBoardPage {
  path: string;
}

export interface UploadedCheckpoint {
  target: string;
  run: string;
  checkpoint: CheckpointSummary;
}

export interface VideoList {
  videos: StoredFile[];
}

export interface YamlBody {
  yaml: string;
}
