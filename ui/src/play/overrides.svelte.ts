// What somebody changes of what a checkpoint says. Closed, it changes nothing.
import type { InspectedCheckpoint } from '../lib/types.ts';
import { changed, read, write, type Settings } from './settings.ts';

export class Overrides {
  isOpen = $state(false);
  envId = $state('');
  settings = $state('');
  seed: number | null = $state(null);
  suite = $state('');

  constructor(private readonly found: InspectedCheckpoint) {
    this.reset();
  }

  get wrong(): string {
    const edited = read(this.settings);
    return this.isOpen && typeof edited === 'string' ? edited : '';
  }

  toggle(): void {
    this.isOpen = !this.isOpen;
    if (!this.isOpen) this.reset();
  }

  private get kwargs(): Settings {
    return (this.found.env['kwargs'] ?? {}) as Settings;
  }

  private reset(): void {
    [this.envId, this.settings, this.seed, this.suite] = [String(this.found.env['id'] ?? ''), write(this.kwargs), null, ''];
  }

  /** As an evaluation takes them. */
  order(): { seed?: number; suite?: string; overrides?: Settings } {
    const edited = read(this.settings);
    if (!this.isOpen || typeof edited === 'string') return {};
    const isOther = this.envId !== this.found.env['id'];
    const kwargs = isOther ? edited : changed(this.kwargs, edited);
    const env: Settings = { ...(isOther ? { id: this.envId } : {}), ...(Object.keys(kwargs).length > 0 ? { kwargs } : {}) };
    return {
      ...(this.seed === null ? {} : { seed: this.seed }),
      ...(this.suite ? { suite: this.suite } : {}),
      ...(Object.keys(env).length > 0 ? { overrides: env } : {}),
    };
  }
}
