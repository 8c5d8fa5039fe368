// A recorded episode as a file: JSON in gzip, a line for each step (docs/arena.md). It is unpacked here, within limits.
export interface ReplayFile {
  header: Record<string, unknown>;
  steps: string[]; // a change each, parsed when it is needed
  end: Record<string, unknown>;
}

const PACKED = 64 * 1024 * 1024; // bytes
const UNPACKED = 256 * 1024 * 1024;
const LONGEST = 1024 * 1024; // of a line
const MOST_STEPS = 1_000_000;

export async function unpack(content: Blob): Promise<string> {
  if (content.size > PACKED) throw new Error(`The file has ${content.size} bytes; the maximum is ${PACKED}.`);
  const reader = content.stream().pipeThrough(new DecompressionStream('gzip')).getReader();
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let [text, size] = ['', 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > UNPACKED) {
      await reader.cancel();
      throw new Error(`The unpacked file exceeds ${UNPACKED} bytes.`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** The document is one object; its "steps" stand on lines of their own, so that they need not all be parsed at once. */
export function parse(text: string): ReplayFile {
  const lines = text.split('\n');
  const first = lines.findIndex((line) => line.trimEnd().endsWith('"steps":[') || line.trimEnd().endsWith('"steps": ['));
  const last = lines.findLastIndex((line) => /^\]\s*,/.test(line));
  if (first < 0 || last <= first) throw new Error('This is not a replay, or it is truncated.');
  const steps = lines.slice(first + 1, last).map((line) => line.replace(/,\s*$/, ''));
  if (steps.length > MOST_STEPS) throw new Error(`The file has ${steps.length} steps; the maximum is ${MOST_STEPS}.`);
  const longest = lines.find((line) => line.length > LONGEST);
  if (longest) throw new Error('A line of the file is far too long.');
  const whole = JSON.parse([...lines.slice(0, first + 1), ...lines.slice(last)].join('\n')) as Record<string, unknown>;
  const end = (whole['end'] ?? {}) as Record<string, unknown>;
  if (whole['kind'] !== 'arena' || whole['schema_version'] !== 1) throw new Error('This page replays episodes of Arena, of version 1.');
  if (end['steps'] !== steps.length) throw new Error(`The file has ${steps.length} steps but declares ${String(end['steps'])}.`);
  return { header: whole, steps, end };
}
