// The types of the daemon's API. They are generated from its schema (api_types.ts); here is only what the page adds.
import type * as api from './api_types.ts';

export type {
  Batch, BenchmarkCell, CheckedRequest, Checkout, CheckpointList, Cluster, ClusterNode, ConfigDifference, EvaluateBody, Failure, FieldError, FoundScheme, HelloMessage, Hud,
  InspectedCheckpoint, JournalEvent, JournalPart, Json, LiveHud, LiveState, LogPart, MatchMessage, MatchPlan, MatchReady, MatchResult, MetricNames, OfferedScript,
  Recipe, Run, RunBody, RunDetail, RunGroup, RunGroupPage, RunPage, SchemeBenchmark, SchemeDetail, SchemeList, Series, StoredFile, System,
} from './api_types.ts';

export const STATES = ['queued', 'running', 'stopping', 'finished', 'failed', 'cancelled', 'lost'] as const satisfies readonly api.RunState[];
export type State = api.RunState;
export type Axis = 'step' | 'time';

export type EventMessage =
  | api.HelloMessage | api.RunMessage | api.RemovedMessage | api.SystemMessage | api.ErrorMessage | api.LogMessage | api.MetricsMessage;

/** A form as the page reads it: the JSON schema in it, as far as forms need it. */
export type Form = Omit<api.Form, 'schema'> & { schema: Schema };
export type RunRequest = api.RunBody & Required<Pick<api.RunBody, 'kind' | 'recipe' | 'config' | 'name'>>;

// What pydantic writes of JSON schema.
export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string | string[];
  title?: string;
  description?: string;
  default?: api.Json;
  enum?: api.Json[];
  const?: api.Json;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  prefixItems?: Schema[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}
