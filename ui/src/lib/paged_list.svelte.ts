// A long list of which only the pages that somebody looks at are fetched.
import { isAbort } from './http.ts';

export const PAGE_SIZE = 100; // items

export interface Part<T> {
  items: T[];
  total: number;
}

export class PagedList<T> {
  total = $state(0);
  isLoaded = $state(false);
  problem: unknown = $state(null);
  private pages: ReadonlyMap<number, T[]> = $state.raw(new Map<number, T[]>());
  private readonly pending = new Set<number>();
  private aborter = new AbortController();
  private range: readonly [number, number] = [0, PAGE_SIZE];

  constructor(private readonly fetchPart: (offset: number, limit: number, signal: AbortSignal) => Promise<Part<T>>) {}

  /** Undefined while its page has not arrived. */
  at(index: number): T | undefined {
    return this.pages.get(Math.floor(index / PAGE_SIZE))?.[index % PAGE_SIZE];
  }

  /** All that have arrived, in order, with their places. */
  get loaded(): [number, T][] {
    const found = [...this.pages].sort(([one], [other]) => one - other);
    return found.flatMap(([page, items]) => items.map((item, place): [number, T] => [page * PAGE_SIZE + place, item]));
  }

  replace(change: (item: T) => T): void {
    this.pages = new Map([...this.pages].map(([page, items]) => [page, items.map(change)]));
  }

  /** Somebody looks at these: what is not there yet is fetched. */
  show(first: number, end: number): void {
    this.range = [first, end];
    for (const page of this.wantedPages()) if (!this.pages.has(page) && !this.pending.has(page)) void this.fetchPage(page);
  }

  /** Another list: nothing of the former is left, and the first page is fetched. */
  restart(): void {
    this.cancel();
    this.range = [0, PAGE_SIZE];
    void this.refresh();
  }

  /** The same list anew. What is shown stays until its successor is there; what nobody looks at is dropped. */
  async refresh(): Promise<void> {
    this.cancel();
    const wanted = this.wantedPages();
    const parts = await Promise.all(wanted.map((page) => this.ask(page)));
    if (parts.some((part) => part === null)) return;
    this.pages = new Map(wanted.map((page, place) => [page, parts[place]!.items]));
    this.show(...this.range); // fewer may be left, or the window moved on meanwhile
  }

  cancel(): void {
    this.aborter.abort();
    this.aborter = new AbortController();
    this.pending.clear();
  }

  private wantedPages(): number[] {
    const last = Math.floor(Math.max(this.range[0], this.range[1] - 1) / PAGE_SIZE);
    const pages = [];
    for (let page = Math.floor(this.range[0] / PAGE_SIZE); page <= last; page++) pages.push(page);
    return pages;
  }

  private async fetchPage(page: number): Promise<void> {
    const part = await this.ask(page);
    if (part) this.pages = new Map([...this.pages, [page, part.items]]);
  }

  private async ask(page: number): Promise<Part<T> | null> {
    const { signal } = this.aborter;
    this.pending.add(page);
    try {
      const part = await this.fetchPart(page * PAGE_SIZE, PAGE_SIZE, signal);
      if (signal.aborted) return null;
      [this.total, this.isLoaded, this.problem] = [part.total, true, null];
      return part;
    } catch (error) {
      if (!isAbort(error) && !signal.aborted) this.problem = error;
      return null;
    } finally {
      if (!signal.aborted) this.pending.delete(page);
    }
  }
}
