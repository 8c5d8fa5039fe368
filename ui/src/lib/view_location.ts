// Where one is, as the address says it: #/runs/01J…/log?search=loss
export interface ViewLocation {
  words: string[];
  query: Record<string, string>;
}

export function readLocation(hash: string): ViewLocation {
  const [path = '', search = ''] = hash.replace(/^#/, '').split('?', 2);
  const words = path.split('/').filter(Boolean).map(decode);
  return { words, query: Object.fromEntries(new URLSearchParams(search)) };
}

/** Empty values are left out, so that the plain place has the plain address. */
export function writeLocation(words: readonly string[], query: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString();
  return `#/${words.map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

function decode(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return word; // half an escape, typed by hand: it names nothing, and the page will say so
  }
}
