// The colours of the world: sand, stone and a few calm accents, as apps/arena/palette.py has them.
export type Color = readonly [number, number, number];

export const SAND: Color = [232, 223, 203];
export const SAND_SHADE: Color = [224, 214, 192];
export const SAND_LIGHT: Color = [241, 234, 217];
export const PEBBLE: Color = [211, 199, 174];
export const SHADOW: Color = [92, 80, 66];
export const WALL_TOP: Color = [104, 119, 134];
export const WALL_EDGE: Color = [142, 157, 170];
export const WALL_FRONT: Color = [66, 78, 93];
export const WALL_FOOT: Color = [50, 60, 74];
export const INK: Color = [41, 44, 56];
export const WHITE: Color = [255, 253, 247];
export const ICE: Color = [196, 232, 247];
export const ICE_EDGE: Color = [126, 190, 222];
export const ASH: Color = [158, 152, 143];
export const ROCK: Color = [62, 47, 40];
export const ITEM_COLORS: readonly Color[] = [[86, 201, 194], [255, 209, 84], [228, 68, 88], [202, 213, 224], [196, 140, 255]];
export const [ORE, BATTERY, HEART, ARMOUR, CHARGE] = ITEM_COLORS as [Color, Color, Color, Color, Color];
export const STATION_COLORS: readonly Color[] = [[110, 84, 66], [43, 98, 122], [250, 243, 232], [108, 124, 158], [92, 62, 138]];
export const TEAM_COLORS: readonly Color[] = [[47, 116, 208], [236, 126, 54], [58, 158, 98], [186, 84, 160]];

/** `share` of the second colour, the rest of the first. */
export function mix(first: Color, second: Color, share: number): Color {
  const part = (index: 0 | 1 | 2) => Math.round(first[index] + (second[index] - first[index]) * share);
  return [part(0), part(1), part(2)];
}

export function css(color: Color, opacity = 1): string {
  return `rgb(${color[0]} ${color[1]} ${color[2]} / ${opacity})`;
}
