// Keys that do things. A page declares its own while it is shown; "?" lists what is in force.
import { untrack } from 'svelte';

export interface Shortcut {
  keys: string; // "/", "?", or two after each other: "g r"
  does: string;
  run: () => void;
}

const PAUSE = 900; // milliseconds between two keys that belong together

class Shortcuts {
  private layers: readonly Shortcut[][] = $state.raw([]);
  private before = '';
  private at = 0;

  get all(): Shortcut[] {
    return this.layers.flat();
  }

  /** In force until the returned function is called; later ones win over earlier ones. */
  add(list: Shortcut[]): () => void {
    this.layers = [...untrack(() => this.layers), list];
    return () => (this.layers = untrack(() => this.layers).filter((layer) => layer !== list));
  }

  press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const both = event.timeStamp - this.at < PAUSE ? `${this.before} ${event.key}` : event.key;
    const found = this.all.findLast((one) => one.keys === both) ?? this.all.findLast((one) => one.keys === event.key);
    [this.before, this.at] = [event.key, event.timeStamp];
    if (!found) return;
    event.preventDefault();
    this.before = '';
    found.run();
  }
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export const shortcuts = new Shortcuts();
