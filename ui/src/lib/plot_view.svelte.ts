// How plots are looked at: the same for all charts of a page, and for the next page too.
import { route } from './route.svelte.ts';
import type { Range } from './curves.ts';
import type { Axis } from './types.ts';

const STORED = 'palaestra.plots';

interface Settings {
  axis: Axis;
  smoothing: number; // 0..1
  isLog: boolean;
}

class PlotView {
  private settings: Settings = $state.raw(stored());

  /** Axis and scale stand in the address too, where they are not the usual. */
  get axis(): Axis {
    return route.query['axis'] === 'time' ? 'time' : this.settings.axis;
  }

  get smoothing(): number {
    return this.settings.smoothing;
  }

  get isLog(): boolean {
    return route.query['scale'] === 'log' || this.settings.isLog;
  }

  /** Zoom stands in the address, so that reloading and sharing keep it; null: the whole. */
  get range(): Range | null {
    const [from, to] = [Number(route.query['from'] ?? NaN), Number(route.query['to'] ?? NaN)];
    return from < to ? [from, to] : null;
  }

  set(change: Partial<Settings>): void {
    if (change.axis && change.axis !== this.axis) this.zoom(null);
    this.settings = { ...this.settings, ...change };
    localStorage.setItem(STORED, JSON.stringify(this.settings));
    this.writeAddress();
  }

  /** A link wins over what was chosen before; what it leaves open is as it was chosen. */
  readAddress(): void {
    const { axis, isLog } = this;
    this.settings = { ...this.settings, axis, isLog };
    this.writeAddress();
  }

  /** So that the address, copied, shows somebody else the same. */
  private writeAddress(): void {
    const [axis, scale] = [this.settings.axis === 'time' ? 'time' : '', this.settings.isLog ? 'log' : ''];
    if ((route.query['axis'] ?? '') !== axis || (route.query['scale'] ?? '') !== scale) route.refine({ axis, scale });
  }

  zoom(range: Range | null): void {
    const [from, to] = range ? range.map((value) => String(Number(value.toPrecision(7)))) : ['', ''];
    route.refine({ from: from ?? '', to: to ?? '' });
  }
}

function stored(): Settings {
  const usual: Settings = { axis: 'step', smoothing: 0.3, isLog: false };
  try {
    return { ...usual, ...(JSON.parse(localStorage.getItem(STORED) ?? '{}') as Partial<Settings>) };
  } catch {
    return usual; // somebody else's words under our name
  }
}

export const plotView = new PlotView();
