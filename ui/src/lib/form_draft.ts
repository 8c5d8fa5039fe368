// A half-filled form survives a reload, a daemon that goes away, and a look at another page.
import type { Nested } from './flat.ts';

const STORED = 'palaestra.form';

export interface Draft {
  key: string; // of which form: kind, recipe, former run
  name: string;
  changes: Nested;
}

export function readDraft(key: string, storage: Storage = sessionStorage): Draft | null {
  try {
    const found = JSON.parse(storage.getItem(STORED) ?? 'null') as Draft | null;
    return found?.key === key && typeof found.changes === 'object' ? found : null;
  } catch {
    return null; // not ours, or cut off
  }
}

export function keepDraft(draft: Draft, storage: Storage = sessionStorage): void {
  storage.setItem(STORED, JSON.stringify(draft));
}

export function dropDraft(storage: Storage = sessionStorage): void {
  storage.removeItem(STORED);
}
