// The words in which a run is asked for: recipes, forms, and what the daemon says of a request.
import type { FieldError, Json } from './types.ts';

export interface Recipe {
  name: string;
  summary: string;
  env: string;
  kind: string;
  total_steps?: number;
  missing_extra: string | null;
}

export interface Form {
  schema: Schema;
  defaults: { [key: string]: Json };
  recipe?: string;
}

export interface RunRequest {
  kind: string;
  recipe: string;
  config: { [key: string]: Json };
  name: string;
  executor?: string;
  nproc?: number;
  priority?: number;
}

export interface Checked {
  errors: FieldError[];
  config: { [key: string]: Json } | null;
  yaml: string;
  command: string;
}

// What pydantic writes of JSON schema, as far as forms need it.
export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string | string[];
  title?: string;
  description?: string;
  default?: Json;
  enum?: Json[];
  const?: Json;
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
