// Which runs are picked for comparing; kept while one walks between pages.
import { SvelteSet } from 'svelte/reactivity';

export const selection = new SvelteSet<string>();

export function choose(ids: readonly string[], isChosen: boolean): void {
  for (const id of ids) {
    if (isChosen) selection.add(id);
    else selection.delete(id);
  }
}
