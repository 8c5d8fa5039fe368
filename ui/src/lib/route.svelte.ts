// The address bar as state: pages read it and write to it, so back, reload and links keep one's place.
import { readLocation, writeLocation, type ViewLocation } from './view_location.ts';

class Route {
  place: ViewLocation = $state.raw(readLocation(location.hash));

  constructor() {
    addEventListener('hashchange', () => (this.place = readLocation(location.hash)));
  }

  get words(): string[] {
    return this.place.words;
  }

  get query(): Record<string, string> {
    return this.place.query;
  }

  go(words: readonly string[], query: Record<string, string> = {}): void {
    location.hash = writeLocation(words, query);
  }

  /** Changes of view, such as a search, replace: "back" leaves the page, not the last letter typed. */
  refine(change: Record<string, string>): void {
    const query = { ...this.place.query, ...change };
    history.replaceState(null, '', writeLocation(this.place.words, query));
    this.place = readLocation(location.hash);
  }
}

export const route = new Route();
export const link = writeLocation;

/** What the address says as long as it names this page: a page that is being left does not read the next one's words. */
export function locationOf(page: string): Readonly<ViewLocation> {
  let last = route.place;
  const place = $derived.by(() => {
    if ((route.words[0] ?? 'runs') === page) last = route.place;
    return last;
  });
  return {
    get words() {
      return place.words;
    },
    get query() {
      return place.query;
    },
  };
}
