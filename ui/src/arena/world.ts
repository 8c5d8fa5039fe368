// A world of Arena as the page knows it: from a live message, or from a step of a replay.
export const ITEMS = ['ore', 'battery', 'heart', 'armour', 'charge'] as const;
export const STATIONS = ['mine', 'generator', 'altar', 'armoury', 'charger'] as const;
export const ACTIONS = ['rest', 'north', 'east', 'south', 'west', 'attack'] as const;
export const FACINGS = ['north', 'east', 'south', 'west'] as const;

export interface Station {
  y: number;
  x: number;
  kind: number; // of STATIONS
  cooldown: number; // steps
  stock: number; // uses left; -1: endless
}

export interface Agent {
  y: number;
  x: number;
  facing: number; // of FACINGS
  frozen: number; // steps
  team: number;
  action: number; // of ACTIONS; -1: none yet
  items: number[]; // by ITEMS
}

export interface World {
  step: number;
  maxSteps: number;
  height: number; // cells
  width: number;
  walls: Uint8Array; // [height * width], 1 where one stands
  stations: Station[];
  agents: Agent[];
}

const MOST = { side: 128, agents: 1024, stations: 1280, steps: 1_000_000, stock: 65_535, teams: 4, count: 255 };

/** The same world, or an error with what is wrong: whatever is drawn was sent by somebody else. */
export function believable(world: World): World {
  within('height', world.height, 1, MOST.side);
  within('width', world.width, 1, MOST.side);
  within('number of agents', world.agents.length, 0, MOST.agents);
  within('number of stations', world.stations.length, 0, MOST.stations);
  within('last step', world.maxSteps, 1, MOST.steps);
  within('step', world.step, 0, world.maxSteps);
  if (world.walls.length !== world.height * world.width) throw new Error('The walls do not fit the map.');
  for (const one of world.stations) {
    place(one, world);
    within('kind of station', one.kind, 0, STATIONS.length - 1);
    within('cooldown', one.cooldown, 0, MOST.count);
    within('stock', one.stock, -1, MOST.stock);
  }
  for (const one of world.agents) {
    place(one, world);
    within('facing', one.facing, 0, FACINGS.length - 1);
    within('freeze', one.frozen, 0, MOST.count);
    within('team', one.team, 0, MOST.teams - 1);
    within('action', one.action, -1, ACTIONS.length - 1);
    if (one.items.length !== ITEMS.length) throw new Error('An inventory has other items.');
    for (const count of one.items) within('count of an item', count, 0, MOST.count);
  }
  return world;
}

function place(one: { y: number; x: number }, world: World): void {
  within('row', one.y, 0, world.height - 1);
  within('column', one.x, 0, world.width - 1);
}

function within(name: string, value: number, low: number, high: number): void {
  if (!Number.isInteger(value) || value < low || value > high) throw new Error(`The ${name} is ${value}; it must be from ${low} to ${high}.`);
}
