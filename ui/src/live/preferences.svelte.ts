// How somebody likes to watch, remembered from one visit to the next.
import { LIMITS, ORDERS, type Order } from './layout.ts';

const STORED = 'palaestra.live';
export const RATES = [1, 5, 10, 15, 30, 60] as const; // pictures a second, of each tile
export const SIDES = [0, 128, 256, 480, 640, 1280] as const; // pixels; 0: as large as it is shown

export class Preferences {
  limit = $state(16);
  fps = $state(15);
  side = $state(0);
  order: Order = $state('number');

  constructor() {
    const kept = read();
    this.limit = LIMITS.find((one) => one === kept['limit']) ?? 16;
    this.fps = RATES.find((one) => one === kept['fps']) ?? 15;
    this.side = SIDES.find((one) => one === kept['side']) ?? 0;
    this.order = ORDERS.find((one) => one === kept['order']) ?? 'number';
  }

  keep(): void {
    const { limit, fps, side, order } = this;
    localStorage.setItem(STORED, JSON.stringify({ limit, fps, side, order }));
  }
}

function read(): Record<string, unknown> {
  try {
    return Object(JSON.parse(localStorage.getItem(STORED) ?? '{}'));
  } catch {
    return {}; // written by somebody else
  }
}
