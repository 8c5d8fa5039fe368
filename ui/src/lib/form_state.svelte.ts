// One form being filled in: its fields, what was changed, and what the daemon says of it.
import * as api from './api.ts';
import { changesTo, flatten, layOver, type Nested } from './flat.ts';
import { readForm, SCRIPTED, type Field } from './form_model.ts';
import { valueAt, without, withValue } from './form_values.ts';
import type { CheckedRequest, FieldError, Form, Json, RunRequest } from './types.ts';

const PAUSE = 250; // milliseconds after the last change, then the daemon is asked

/** `base`: what a former run had asked for; the form's changes are laid over it. */
export class FormState {
  readonly root: Field;
  defaults: Nested = $state.raw({});
  changes: Nested = $state.raw({});
  checked: CheckedRequest | null = $state.raw(null);
  errors: FieldError[] = $state.raw([]);
  problem: unknown = $state(null);
  private algorithm = ''; // whose defaults are shown; empty: that of the recipe
  private timer: ReturnType<typeof setTimeout> | undefined;
  private aborter = new AbortController();

  constructor(
    form: Form,
    readonly base: Nested,
    private readonly request: () => Omit<RunRequest, 'config'>,
    private readonly formFor: (algorithm: string) => Promise<Form>,
  ) {
    const root = readForm(form.schema);
    const isShown = (field: Field) => field.path[0] !== 'script' || !SCRIPTED.includes(request().kind);
    this.root = { ...root, fields: root.fields.filter(isShown) };
    this.defaults = form.defaults;
  }

  /** As it would be run: what was set here, else what the daemon made of the rest. */
  shown(path: readonly string[]): Json | undefined {
    const own = valueAt(this.changes, path);
    if (own !== undefined) return own;
    const resolved = this.checked?.config ? valueAt(this.checked.config, path) : undefined;
    return resolved === undefined ? valueAt(this.defaults, path) : resolved;
  }

  isChanged(path: readonly string[]): boolean {
    return valueAt(this.changes, path) !== undefined;
  }

  get changeCount(): number {
    return Object.keys(this.changes).length === 0 ? 0 : flatten(this.changes).size;
  }

  errorsAt(path: readonly string[]): FieldError[] {
    const key = path.join('.');
    return this.errors.filter((error) => error.key === key);
  }

  /** Errors of this group or anything inside. */
  errorCount(path: readonly string[]): number {
    const key = path.join('.');
    return this.errors.filter((error) => error.key === key || error.key.startsWith(`${key}.`)).length;
  }

  set(path: readonly string[], value: Json): void {
    this.replace(withValue(this.changes, this.defaults, path, value));
  }

  reset(path: readonly string[]): void {
    this.replace(without(this.changes, path));
  }

  replace(changes: Nested): void {
    this.changes = changes;
    void this.followAlgorithm();
    this.checkSoon();
  }

  /** A recipe has other settings for another algorithm. The choice itself stays a change, so that it is sent. */
  async followAlgorithm(): Promise<void> {
    const wanted = this.changes['algorithm'];
    const algorithm = typeof wanted === 'string' ? wanted : '';
    if (algorithm === this.algorithm) return;
    this.algorithm = algorithm;
    try {
      const form = await this.formFor(algorithm);
      if (algorithm === this.algorithm) this.defaults = { ...form.defaults, algorithm: this.defaults['algorithm'] ?? null };
    } catch (error) {
      this.problem = error;
    }
  }

  /** From the YAML view: whatever it says differently from the defaults becomes the changes. */
  take(config: Nested): void {
    this.replace(changesTo(this.defaults, config));
  }

  get config(): Nested {
    return layOver(this.base, this.changes);
  }

  checkSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.check(), PAUSE);
  }

  close(): void {
    clearTimeout(this.timer);
    this.aborter.abort();
  }

  async check(): Promise<void> {
    this.aborter.abort();
    this.aborter = new AbortController();
    try {
      const checked = await api.check({ ...this.request(), config: this.config }, this.aborter.signal);
      // With errors there is no whole config: the last one stays in view, so that nothing jumps.
      this.checked = checked.config ? checked : { ...checked, config: this.checked?.config ?? null, yaml: this.checked?.yaml ?? '' };
      [this.errors, this.problem] = [checked.errors, null];
    } catch (error) {
      if (!api.isAbort(error)) this.problem = error;
    }
  }
}
