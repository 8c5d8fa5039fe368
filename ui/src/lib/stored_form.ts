// A half-filled form survives a reload, a daemon that goes away, and a look at another page.
import type { Nested } from './flat.ts';

const STORED = 'palaestra.form';

export interface StoredForm {
  key: string; // of which form: kind, recipe, former run
  name: string;
  changes: Nested;
}

export function readStoredForm(key: string, storage: Storage = sessionStorage): StoredForm | null {
  try {
    const found = JSON.parse(storage.getItem(STORED) ?? 'null') as StoredForm | null;
    return found?.key === key && typeof found.changes === 'object' ? found : null;
  } catch {
    return null; // not ours, or cut off
  }
}

export function storeForm(draft: StoredForm, storage: Storage = sessionStorage): void {
  storage.setItem(STORED, JSON.stringify(draft));
}

export function clearStoredForm(storage: Storage = sessionStorage): void {
  storage.removeItem(STORED);
}
