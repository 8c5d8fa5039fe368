// Colours of curves: told apart with every common kind of colour-blindness, and by dashes when they come round again.
import type { Theme } from './theme.svelte.ts';

const COLOURS: Record<Theme, readonly string[]> = {
  light: ['#0b5cad', '#c24a00', '#00805c', '#a8468a', '#9a6b00', '#2b8cc4', '#5d5f66'],
  dark: ['#6cb2ff', '#ff9a57', '#3fd1a4', '#f09bd0', '#e8c04a', '#9fdcff', '#b9bdc6'],
};
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

export interface LineStyle {
  colour: string;
  dash: readonly number[];
}

export function lineStyleOf(index: number, theme: Theme): LineStyle {
  const colours = COLOURS[theme];
  const round = Math.floor(index / colours.length);
  return { colour: colours[index % colours.length]!, dash: DASHES[round % DASHES.length]! };
}
