// Which key does what, for a person who plays. Actions are counted from 0.
import { ACTIONS } from '../arena/world.ts';

export interface Keyboard {
  keys: Record<string, number>; // by the key's name, as events say it
  names: string[]; // of the actions
  idle: number; // while no key is held
}

const ARROWS = { up: 'ArrowUp', right: 'ArrowRight', down: 'ArrowDown', left: 'ArrowLeft' } as const;
const LETTERS = { up: 'w', right: 'd', down: 's', left: 'a' } as const;
type Direction = keyof typeof ARROWS;

// By the beginning of an environment's id: where each action goes, and which of them is to do nothing.
const KNOWN: [RegExp, Partial<Record<Direction | 'space' | 'rest', number>>, string[]][] = [
  [/Arena-/, { rest: 0, up: 1, right: 2, down: 3, left: 4, space: 5 }, [...ACTIONS]],
  [/^CartPole-/, { left: 0, right: 1 }, ['push left', 'push right']],
  [/^(MountainCar|Acrobot)-/, { left: 0, rest: 1, right: 2 }, ['left', 'nothing', 'right']],
  [/^LunarLander-/, { rest: 0, left: 1, up: 2, right: 3 }, ['nothing', 'left engine', 'main engine', 'right engine']],
  [/^FrozenLake/, { left: 0, down: 1, right: 2, up: 3 }, ['left', 'down', 'right', 'up']],
  [/^CliffWalking/, { up: 0, right: 1, down: 2, left: 3 }, ['up', 'right', 'down', 'left']],
  [/^Taxi-/, { down: 0, up: 1, right: 2, left: 3, space: 4 }, ['south', 'north', 'east', 'west', 'pick up', 'drop off']],
  [/^MiniGrid-/, { left: 0, right: 1, up: 2, space: 5 }, ['turn left', 'turn right', 'forward', 'pick up', 'drop', 'toggle', 'done']],
];

/** Arrows where it is known what they mean; and always the digits. */
export function keyboardFor(env: string, count: number): Keyboard {
  const [, ways, named] = KNOWN.find(([id]) => id.test(env)) ?? [null, {}, []];
  const keys: Record<string, number> = {};
  for (let action = 0; action < Math.min(count, 10); action++) keys[String(action)] = action;
  for (const way of ['up', 'right', 'down', 'left'] as const) {
    const action = ways[way];
    if (action !== undefined && action < count) [keys[ARROWS[way]], keys[LETTERS[way]]] = [action, action];
  }
  if (ways.space !== undefined && ways.space < count) keys[' '] = ways.space;
  if (ways.rest !== undefined) keys['.'] = ways.rest;
  return { keys, names: Array.from({ length: count }, (_, action) => named[action] ?? `action ${action}`), idle: ways.rest ?? 0 };
}

/** The keys of each action, as they are printed on a keyboard. */
export function keysOf(keyboard: Keyboard, action: number): string[] {
  const SIGNS: Record<string, string> = { ArrowUp: '↑', ArrowRight: '→', ArrowDown: '↓', ArrowLeft: '←', ' ': 'space' };
  const found = Object.keys(keyboard.keys).filter((key) => keyboard.keys[key] === action);
  return found.toSorted((one, other) => Number(/\d/.test(one)) - Number(/\d/.test(other))).map((key) => SIGNS[key] ?? key);
}
