// A log as lines that can be shown and searched, however long it is.
import type { JournalEvent } from './types.ts';

// Colours and cursor moves of a terminal; here they would only be noise.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

export function withoutColours(text: string): string {
  return text.replace(ESCAPES, '');
}

/** A carriage return begins the line again, as progress bars do: the last wins. */
export function cleanLine(line: string): string {
  const plain = withoutColours(line).replace(/\r+$/, '');
  return plain.slice(plain.lastIndexOf('\r') + 1);
}

export class LogLines {
  private open = ''; // a line whose end has not come yet

  constructor(private readonly most: number) {}

  lines: string[] = [];
  dropped = 0; // from the front, so that a page left open for days stays small

  add(text: string): void {
    const parts = (this.open + text).split('\n');
    this.open = parts.pop() ?? '';
    this.lines = [...this.lines, ...parts.map(cleanLine)];
    const over = this.lines.length - this.most;
    if (over <= 0) return;
    this.lines = this.lines.slice(over);
    this.dropped += over;
  }

  /** With the unfinished line at the end. */
  get all(): string[] {
    return this.open === '' ? this.lines : [...this.lines, cleanLine(this.open)];
  }
}

export interface Piece {
  text: string;
  isFound: boolean;
}

/** A line cut where the search is found, letters' case aside. */
export function pieces(line: string, search: string): Piece[] {
  if (search === '') return [{ text: line, isFound: false }];
  const [low, wanted] = [line.toLowerCase(), search.toLowerCase()];
  const found: Piece[] = [];
  let start = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, start)) {
    if (at > start) found.push({ text: line.slice(start, at), isFound: false });
    found.push({ text: line.slice(at, at + wanted.length), isFound: true });
    start = at + wanted.length;
  }
  if (start < line.length || found.length === 0) found.push({ text: line.slice(start), isFound: false });
  return found;
}

export function toneOf(line: string): 'bad' | 'warn' | 'soft' | '' {
  if (/\b(error|critical|traceback|failed)\b/i.test(line)) return 'bad';
  if (/\bwarn(ing)?\b/i.test(line)) return 'warn';
  return /\bDEBUG\b/.test(line) ? 'soft' : '';
}

/** An entry of the journal as one line of a log. */
export function journalLine({ at, event, level, rank, data }: JournalEvent): string {
  const words = Object.entries(data).map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const time = new Date(at * 1000).toISOString().slice(0, 19).replace('T', ' ');
  return [time, level.toUpperCase(), event, rank === 0 ? '' : `rank=${rank}`, ...words].filter(Boolean).join(' ').replace(/[\r\n]+/g, ' ');
}
