// The states of a live view, in words; colour only helps.
import { number } from '../lib/format.ts';
import type { LiveState } from '../lib/types.ts';
import type { Frame } from './frame.ts';

/** As the daemon says it, and what only the page can know. */
export type Condition = LiveState['state'] | 'connecting' | 'away' | 'refused';

export const CONDITIONS: Record<Condition, { words: string; tone: 'calm' | 'good' | 'warn' | 'bad' }> = {
  connecting: { words: 'connecting …', tone: 'calm' },
  connected: { words: 'connected', tone: 'good' },
  unavailable: { words: 'unavailable', tone: 'calm' },
  stale: { words: 'stale', tone: 'warn' },
  failed: { words: 'no frames', tone: 'bad' },
  closed: { words: 'closed', tone: 'calm' },
  away: { words: 'daemon away', tone: 'bad' },
  refused: { words: 'refused', tone: 'bad' },
};

export function isCondition(word: unknown): word is Condition {
  return typeof word === 'string' && word in CONDITIONS;
}

/** `reward 1 · return 61 · length 61`, or `rew 1 · ret 61 · len 61` where there is little room. */
export function tileLine({ reward, total, length }: Pick<Frame, 'reward' | 'total' | 'length'>, isNarrow = false): string {
  const [first, second, third] = isNarrow ? ['rew', 'ret', 'len'] : ['reward', 'return', 'length'];
  return `${first} ${number(reward, 3)} · ${second} ${number(total, isNarrow ? 3 : 4)} · ${third} ${number(length)}`;
}
