// Metric names by their first word, the ones that people look at first in front.
const FIRST = ['charts', 'eval', 'losses', 'episode', 'tasks', 'replay'];
// What says first whether an algorithm learns: returns, exploration, values of Q networks, SAC's temperature.
const LEADING = ['charts/episodic_return', 'eval/episodic_return', 'charts/epsilon', 'losses/q_values', 'losses/qf1_values', 'losses/qf2_values', 'losses/alpha'];

export interface MetricGroup {
  title: string;
  names: string[];
}

export function groupMetrics(names: readonly string[], search: string): MetricGroup[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = names.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
  const groups = new Map<string, string[]>();
  for (const name of wanted.toSorted((one, other) => rank(one) - rank(other) || one.localeCompare(other))) {
    const title = name.includes('/') ? name.slice(0, name.indexOf('/')) : 'other';
    groups.set(title, [...(groups.get(title) ?? []), name]);
  }
  return [...groups].map(([title, list]) => ({ title, names: list }));
}

function rank(name: string): number {
  const leading = LEADING.indexOf(name);
  const index = FIRST.indexOf(name.split('/')[0] ?? '');
  return (index < 0 ? FIRST.length : index) * 100 + (leading < 0 ? LEADING.length : leading);
}
