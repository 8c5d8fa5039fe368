// Settings of an environment as text, `name: value` a line with values as JSON, and back.
import type { Json } from '../lib/types.ts';

export type Settings = { [key: string]: Json };

export function write(settings: Settings): string {
  return Object.entries(settings).map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join('\n');
}

/** What it says, or which line is wrong. A word that is no JSON is taken for a text. */
export function read(text: string): Settings | string {
  const found: Settings = {};
  for (const [index, line] of text.split('\n').entries()) {
    if (!line.trim()) continue;
    const match = /^\s*([A-Za-z_][A-Za-z0-9_]*)\s*[:=]\s*(.+?)\s*$/.exec(line);
    if (!match) return `Line ${index + 1} is not “name: value”.`;
    const [, name, value] = match as unknown as [string, string, string];
    if (name in found) return `Line ${index + 1} repeats ${name}.`;
    const meant = plain(value);
    if (meant === undefined) return `Line ${index + 1}: ${value} is not a valid value.`;
    found[name] = meant;
  }
  return found;
}

function plain(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return /^[\w./:-]+$/.test(text) ? text : undefined;
  }
}

/** What is other than before. What was left out cannot be unsaid: it stays as it was. */
export function changed(before: Settings, after: Settings): Settings {
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));
}
