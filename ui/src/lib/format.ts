// Numbers and times as people read them. Everything unknown is a dash, never a zero.
const NONE = '–';
const MINUS = '\u2212';

const writers = new Map<number, Intl.NumberFormat>(); // making one takes a thousand times as long as using it

function writer(places: number): Intl.NumberFormat {
  const found = writers.get(places) ?? new Intl.NumberFormat('en-US', { minimumFractionDigits: places, maximumFractionDigits: places });
  writers.set(places, found);
  return found;
}

/** About `digits` significant digits, without exponents where a plain number is short. */
export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return tidy(value.toExponential(Math.min(2, digits - 1)));
  if (Number.isInteger(value)) return minus(writer(0).format(value));
  const places = Math.max(0, digits - 1 - Math.max(0, Math.floor(Math.log10(size))));
  return minus(writer(places).format(value));
}

/** 1,200,000 → 1.2 M: for axes and counts of steps. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  for (const [unit, sign] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']] as const) {
    if (size >= unit) return minus(`${Number((value / unit).toPrecision(3))} ${sign}`);
  }
  return size !== 0 && size < 1e-3 ? tidy(value.toExponential(1)) : minus(String(Number(value.toPrecision(3))));
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  let [rest, unit] = [value, 0];
  while (rest >= 1000 && unit < 4) [rest, unit] = [rest / 1000, unit + 1];
  return `${unit === 0 ? rest : rest.toPrecision(3)} ${['B', 'kB', 'MB', 'GB', 'TB'][unit]}`;
}

/** 3725 → 1 h 2 min */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** "just now", "12 min ago", and a date when it is long ago. `now` and `at` in seconds. */
export function ago(at: number | null | undefined, now: number): string {
  if (at === null || at === undefined) return NONE;
  const passed = now - at;
  if (passed < 45) return 'just now';
  if (passed < 3600) return `${Math.max(1, Math.round(passed / 60))} min ago`;
  if (passed < 86400) return `${Math.round(passed / 3600)} h ago`;
  if (passed < 7 * 86400) return `${Math.round(passed / 86400)} d ago`;
  return new Date(at * 1000).toISOString().slice(0, 10);
}

export function moment(at: number | null | undefined): string {
  if (at === null || at === undefined) return NONE;
  return new Date(at * 1000).toLocaleString('sv-SE');
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? NONE : `${Math.floor(share * 100)} %`;
}

export function value(thing: unknown): string {
  if (thing === undefined) return NONE;
  return typeof thing === 'string' ? thing : JSON.stringify(thing);
}

function minus(text: string): string {
  return text.replace('-', MINUS);
}

function tidy(text: string): string {
  return minus(text.replace(/\.?0+e/, 'e').replace('e+', 'e'));
}
