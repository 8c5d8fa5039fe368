// Stations and agents as pictures, drawn once per size and appearance, and cached.
import { Brush, ImageCache, blank, type Point } from './brush.ts';
import {
  ARMOUR, ASH, BATTERY, CHARGE, HEART, ICE, ICE_EDGE, INK, ITEM_COLORS, mix, ORE, ROCK, SHADOW, STATION_COLORS, TEAM_COLORS, WHITE,
  type Color,
} from './palette.ts';
import type { Agent, Station } from './world.ts';

const CLOCK_MARKS = 8; // a gauge shows so many steps at most
const SMALL = 12; // pixels; below that eyes are not visible
const AHEAD: readonly Point[] = [[0, -1], [1, 0], [0, 1], [-1, 0]]; // by facing
const [ORE_AT, BATTERY_AT, HEART_AT, ARMOUR_AT, CHARGE_AT] = [0, 1, 2, 3, 4];
const cache = new ImageCache(3000);

export function stationSprite(size: number, { kind, cooldown, stock }: Station): HTMLCanvasElement {
  const clock = stock === 0 ? 0 : Math.min(cooldown, CLOCK_MARKS);
  return cache.get(`s ${size} ${kind} ${stock === 0} ${clock}`, () => draw(size, (brush) => paintStation(brush, kind, stock === 0, clock)));
}

export function agentSprite(size: number, agent: Agent): HTMLCanvasElement {
  const cargo = [HEART_AT, BATTERY_AT, ORE_AT].find((item) => agent.items[item]! > 0) ?? -1;
  const [hasArmour, hasCharge] = [agent.items[ARMOUR_AT]! > 0, agent.items[CHARGE_AT]! > 0];
  const appearance: AgentAppearance = { team: agent.team, facing: agent.facing, isFrozen: agent.frozen > 0, cargo, hasArmour, hasCharge };
  return cache.get(`a ${size} ${Object.values(appearance).join(' ')}`, () => draw(size, (brush) => paintAgent(brush, appearance)));
}

function draw(size: number, paint: (brush: Brush) => void): HTMLCanvasElement {
  const [canvas, surface] = blank(size, size);
  paint(new Brush(surface, size));
  return canvas;
}

interface AgentAppearance {
  team: number;
  facing: number;
  isFrozen: boolean;
  cargo: number; // the most precious item that it carries, -1: nothing
  hasArmour: boolean;
  hasCharge: boolean;
}

function paintAgent(brush: Brush, appearance: AgentAppearance): void {
  const color = TEAM_COLORS[appearance.team % TEAM_COLORS.length]!;
  const outline = mix(color, INK, 0.66);
  brush.disc(0.54, 0.6, 0.4, SHADOW, 0.28);
  brush.shape(tip(appearance.facing, 0.49, appearance.hasCharge ? 0.42 : 0.3), outline);
  brush.disc(0.5, 0.5, 0.42, outline);
  if (appearance.hasCharge) brush.shape(tip(appearance.facing, 0.46, 0.4), CHARGE);
  if (appearance.hasArmour) {
    brush.disc(0.5, 0.5, 0.42, ARMOUR);
    brush.disc(0.5, 0.5, 0.375, outline);
  }
  brush.disc(0.5, 0.5, appearance.hasArmour ? 0.345 : 0.37, color);
  brush.disc(0.45, 0.43, 0.25, mix(color, WHITE, 0.16));
  if (brush.size < SMALL) brush.shape(tip(appearance.facing, 0.42, 0.26), WHITE);
  else paintEyes(brush, appearance.facing);
  paintCargo(brush, appearance);
  if (appearance.isFrozen) paintIce(brush);
}

function tip(facing: number, reach: number, half: number): Point[] {
  const [dx, dy] = AHEAD[facing]!;
  const [x, y] = [0.5 + dx * 0.2, 0.5 + dy * 0.2];
  return [[0.5 + dx * reach, 0.5 + dy * reach], [x - dy * half, y + dx * half], [x + dy * half, y - dx * half]];
}

function paintEyes(brush: Brush, facing: number): void {
  const [dx, dy] = AHEAD[facing]!;
  for (const side of [-0.155, 0.155]) {
    const [x, y] = [0.5 + dx * 0.2 - side * dy, 0.5 + dy * 0.2 + side * dx];
    brush.disc(x, y, 0.115, WHITE);
    brush.disc(x + dx * 0.035, y + dy * 0.035, 0.06, INK);
  }
}

/** On its back. */
function paintCargo(brush: Brush, appearance: AgentAppearance): void {
  if (appearance.cargo < 0) return;
  const [dx, dy] = AHEAD[appearance.facing]!;
  const [x, y] = [0.5 - dx * 0.17, 0.5 - dy * 0.17];
  if (appearance.cargo === HEART_AT) {
    brush.heart(x, y, 0.54, WHITE);
    brush.heart(x, y, 0.42, HEART);
    return;
  }
  brush.disc(x, y, 0.175, INK, 0.75);
  brush.disc(x, y, 0.13, ITEM_COLORS[appearance.cargo]!);
}

function paintIce(brush: Brush): void {
  brush.box(0.03, 0.03, 0.97, 0.97, 0.16, ICE, 0.48);
  const { surface } = brush;
  surface.lineWidth = 0.06;
  surface.strokeStyle = `rgb(${ICE_EDGE.join(' ')})`;
  surface.beginPath();
  surface.roundRect(0.06, 0.06, 0.88, 0.88, 0.14);
  surface.stroke();
  for (const by of [0, 0.17]) brush.shape([[0.16 + by, 0.4], [0.4 + by, 0.14], [0.47 + by, 0.14], [0.16 + by, 0.48]], WHITE, 0.85);
}

function paintStation(brush: Brush, kind: number, isExhausted: boolean, clock: number): void {
  const body = STATION_COLORS[kind]!;
  brush.box(0.03, 0.03, 0.97, 0.97, 0.16, mix(body, INK, 0.6)); // its front, seen below the top
  brush.box(0.03, 0.03, 0.97, 0.85, 0.16, body);
  brush.box(0.08, 0.03, 0.92, 0.09, 0.03, mix(body, WHITE, 0.3));
  IMAGES[kind]!(brush, body);
  if (isExhausted) {
    brush.shade(ASH, 0.82);
    const cross: Point[] = [[0.2, 0.27], [0.3, 0.17], [0.8, 0.64], [0.7, 0.74]];
    for (const corners of [cross, cross.map(([x, y]): Point => [1 - x, y])]) brush.shape(corners, mix(ASH, INK, 0.55));
    return;
  }
  if (clock > 0) brush.shade(mix(body, SHADOW, 0.6), 0.6);
  brush.box(0.14, 0.87, 0.86, 0.94, 0.03, INK, 0.6); // the gauge fills while it cools; full: it is ready
  if (clock < CLOCK_MARKS) brush.box(0.14, 0.87, 0.86 - 0.72 * (clock / CLOCK_MARKS), 0.94, 0.03, ITEM_COLORS[kind]!);
}

type Paint = (brush: Brush, body: Color) => void;

const paintMine: Paint = (brush) => {
  brush.shape([[0.1, 0.8], [0.2, 0.42], [0.5, 0.22], [0.82, 0.44], [0.9, 0.8]], ROCK);
  for (const [x, foot, top, half] of [[0.3, 0.74, 0.4, 0.1], [0.68, 0.76, 0.34, 0.11], [0.49, 0.78, 0.14, 0.13]] as const) {
    const shoulder = top + 0.14;
    brush.shape([[x, top], [x + half, shoulder], [x + half * 0.7, foot], [x - half * 0.7, foot], [x - half, shoulder]], ORE);
    brush.shape([[x, top], [x + half, shoulder], [x + half * 0.7, foot], [x, foot]], mix(ORE, INK, 0.35));
    brush.shape([[x, top], [x - half, shoulder], [x - half * 0.4, shoulder]], mix(ORE, WHITE, 0.45));
  }
};

const paintGenerator: Paint = (brush, body) => {
  brush.disc(0.5, 0.46, 0.36, mix(body, INK, 0.4));
  brush.shape([[0.58, 0.1], [0.26, 0.52], [0.46, 0.52], [0.38, 0.84], [0.74, 0.38], [0.53, 0.38]], BATTERY);
};

const paintAltar: Paint = (brush) => {
  brush.heart(0.5, 0.48, 0.74, mix(HEART, INK, 0.3));
  brush.heart(0.5, 0.46, 0.66, HEART);
  brush.disc(0.36, 0.34, 0.065, WHITE, 0.8);
};

const SHIELD: readonly Point[] = [[0.5, 0.1], [0.82, 0.2], [0.8, 0.5], [0.68, 0.7], [0.5, 0.84], [0.32, 0.7], [0.2, 0.5], [0.18, 0.2]];

const paintArmoury: Paint = (brush) => {
  const inner = SHIELD.map(([x, y]): Point => [0.5 + (x - 0.5) * 0.76, 0.46 + (y - 0.46) * 0.76]);
  brush.shape(SHIELD, WHITE);
  brush.shape(inner, mix(ARMOUR, INK, 0.3));
  brush.shape(inner.map(([x, y]): Point => [Math.max(x, 0.5), y]), ARMOUR);
};

const STAR: readonly Point[] = [[0.5, 0.04], [0.6, 0.36], [0.92, 0.46], [0.6, 0.56], [0.5, 0.88], [0.4, 0.56], [0.08, 0.46], [0.4, 0.36]];

const paintCharger: Paint = (brush, body) => {
  brush.disc(0.5, 0.46, 0.3, mix(body, INK, 0.5));
  brush.shape(STAR, CHARGE);
  brush.disc(0.5, 0.46, 0.12, WHITE);
};

const IMAGES: readonly Paint[] = [paintMine, paintGenerator, paintAltar, paintArmoury, paintCharger];
