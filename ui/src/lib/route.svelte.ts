// The address bar as state: pages read it and write to it, so back, reload and links keep one's place.
import { readPlace, writePlace, type Place } from './place.ts';

class Route {
  place: Place = $state.raw(readPlace(location.hash));

  constructor() {
    addEventListener('hashchange', () => (this.place = readPlace(location.hash)));
  }

  get words(): string[] {
    return this.place.words;
  }

  get query(): Record<string, string> {
    return this.place.query;
  }

  go(words: readonly string[], query: Record<string, string> = {}): void {
    location.hash = writePlace(words, query);
  }

  /** Changes of view, such as a search, replace: "back" leaves the page, not the last letter typed. */
  refine(change: Record<string, string>): void {
    const query = { ...this.place.query, ...change };
    history.replaceState(null, '', writePlace(this.place.words, query));
    this.place = readPlace(location.hash);
  }
}

export const route = new Route();
export const link = writePlace;

/** What the address says as long as it names this page: a page that is being left does not read the next one's words. */
export function placeOf(page: string): Readonly<Place> {
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
