// A recorded episode, opened: any of its states at once, in any order.
import { ACTIONS, believable, ITEMS, type Agent, type Station, type World } from '../arena/world.ts';
import type { ReplayFile } from './file.ts';

const KEYFRAME = 64; // steps; so many at most are followed to reach any state
type Change = Record<string, unknown>;

export class Episode {
  readonly length: number;
  private readonly keyframes = new Map<number, World>();
  private last: [number, World];
  private readonly paid: Float64Array[]; // returns so far, by keyframe
  private readonly parsed = new Map<number, Change>();

  constructor(private readonly file: ReplayFile) {
    this.length = file.steps.length;
    const start = readStart(file.header['start']);
    this.keyframes.set(0, start);
    this.last = [0, start];
    this.paid = [new Float64Array(start.agents.length)];
  }

  get about(): Record<string, unknown> {
    return { ...(Object(this.file.header['about']) as object), seed: this.file.header['seed'] };
  }

  at(step: number): World {
    const key = Math.floor(step / KEYFRAME) * KEYFRAME;
    const known = [...this.keyframes.keys()].filter((one) => one <= key).reduce((one, other) => Math.max(one, other), 0);
    let [from, world] = this.last[0] <= step && this.last[0] >= known ? this.last : [known, this.keyframes.get(known)!];
    while (from < step) {
      world = follow(world, this.change(++from));
      if (from % KEYFRAME === 0) this.keyframes.set(from, world);
    }
    this.last = [step, world];
    return world;
  }

  /** Of the step that led here, by agent; nothing has been paid at 0. */
  rewards(step: number): Float64Array {
    const paid = new Float64Array(this.paid[0]!.length);
    if (step > 0) add(paid, this.change(step));
    return paid;
  }

  /** Each agent's return up to and with this step. */
  returns(step: number): Float64Array {
    const key = Math.floor(step / KEYFRAME);
    for (let known = this.paid.length; known <= key; known++) {
      const sum = this.paid[known - 1]!.slice();
      for (let one = (known - 1) * KEYFRAME + 1; one <= known * KEYFRAME; one++) add(sum, this.change(one));
      this.paid.push(sum);
    }
    const sum = this.paid[key]!.slice();
    for (let one = key * KEYFRAME + 1; one <= step; one++) add(sum, this.change(one));
    return sum;
  }

  private change(step: number): Change {
    let found = this.parsed.get(step);
    if (!found) {
      found = Object(JSON.parse(this.file.steps[step - 1]!)) as Change;
      if (this.parsed.size > 4 * KEYFRAME) this.parsed.clear();
      this.parsed.set(step, found);
    }
    return found;
  }
}

function add(sum: Float64Array, change: Change): void {
  for (const [agent, reward] of pairs(change, 'rewards', sum.length, false)) sum[agent]! += reward;
}

function follow(before: World, change: Change): World {
  const agents = before.agents.map((one) => ({ ...one, items: [...one.items], frozen: Math.max(0, one.frozen - 1) }));
  const stations = before.stations.map((one) => ({ ...one, cooldown: Math.max(0, one.cooldown - 1) }));
  const letters = change['actions'];
  if (typeof letters !== 'string' || letters.length !== agents.length) throw new Error('The actions of a step do not fit the agents.');
  agents.forEach((agent, index) => {
    agent.action = letters[index] === '-' ? -1 : Number(letters[index]);
    if (agent.action >= 1 && agent.action <= 4 && before.agents[index]!.frozen === 0) agent.facing = agent.action - 1;
  });
  for (const [index, cell] of pairs(change, 'cells', agents.length)) [agents[index]!.y, agents[index]!.x] = [Math.floor(cell / before.width), cell % before.width];
  for (const [index, value] of pairs(change, 'facings', agents.length)) agents[index]!.facing = value;
  for (const [index, value] of pairs(change, 'frozen', agents.length)) agents[index]!.frozen = value;
  for (const [index, value] of pairs(change, 'items', agents.length * ITEMS.length)) agents[Math.floor(index / ITEMS.length)]!.items[index % ITEMS.length] = value;
  for (const [index, value] of pairs(change, 'cooldowns', stations.length)) stations[index]!.cooldown = value;
  for (const [index, value] of pairs(change, 'stocks', stations.length)) stations[index]!.stock = value;
  return believable({ ...before, step: before.step + 1, agents, stations });
}

/** Flat lists of index and value. */
function* pairs(change: Change, name: string, count: number, isWhole = true): Generator<[number, number]> {
  const flat = change[name] ?? [];
  if (!Array.isArray(flat) || flat.length % 2 !== 0) throw new Error(`“${name}” of a step is no list of pairs.`);
  for (let at = 0; at < flat.length; at += 2) {
    const [index, value] = [flat[at] as unknown, flat[at + 1] as unknown];
    if (!Number.isInteger(index) || (index as number) < 0 || (index as number) >= count) throw new Error(`“${name}” of a step names number ${String(index)}; there are ${count}.`);
    if (typeof value !== 'number' || (isWhole && !Number.isInteger(value))) throw new Error(`“${name}” of a step holds ${String(value)}.`);
    yield [index as number, value];
  }
}

function readStart(data: unknown): World {
  const start = Object(data) as Record<string, unknown>;
  const rows = table(start['map']) as unknown as string[];
  const inventories = table(start['inventories']);
  const width = rows[0]?.length ?? 0;
  if (rows.some((row) => row.length !== width)) throw new Error('The rows of the map differ in length.');
  return believable({
    step: Number(start['step']),
    maxSteps: Number(start['max_steps']),
    height: rows.length,
    width,
    walls: Uint8Array.from(rows.join(''), (letter) => (letter === '#' ? 1 : 0)),
    stations: table(start['stations']).map(([y, x, kind, cooldown, stock]) => ({ y, x, kind, cooldown, stock }) as Station),
    agents: table(start['agents']).map(([y, x, facing, frozen, team, action], index) => ({ y, x, facing, frozen, team, action, items: [...(inventories[index] ?? [])] }) as Agent),
  });
}

function table(data: unknown): number[][] {
  if (!Array.isArray(data)) throw new Error('The first state of the replay cannot be read.');
  return data as number[][];
}

export function actionName(action: number): string {
  return ACTIONS[action] ?? '–';
}
