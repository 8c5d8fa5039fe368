// Floor and walls of a map: drawn once, since they do not change within an episode.
import { blank, ImageCache, type Surface } from './brush.ts';
import { css, mix, PEBBLE, SAND, SAND_LIGHT, SAND_SHADE, SHADOW, WALL_EDGE, WALL_FOOT, WALL_FRONT, WALL_TOP, type Color } from './palette.ts';
import type { World } from './world.ts';

const FINE_CELL = 10; // pixels; from here on there is room for grain
const cache = new ImageCache(80);

export function ground(world: World, cell: number): HTMLCanvasElement {
  return cache.get(`${cell} ${world.width} ${String.fromCharCode(...world.walls)}`, () => draw(world, cell));
}

function draw(world: World, cell: number): HTMLCanvasElement {
  const { height, width } = world;
  const [canvas, surface] = blank(width * cell, height * cell);
  paintFloor(surface, height, width, cell);
  const walls = [...world.walls.keys()].filter((index) => world.walls[index]);
  const isWall = (y: number, x: number) => y < 0 || x < 0 || y >= height || x >= width || world.walls[y * width + x] === 1;
  for (const [part, strength] of [[0.34, 0.16], [0.2, 0.12]] as const) castShadows(surface, walls, width, cell, Math.max(1, Math.round(cell * part)), strength);
  for (const index of walls) paintWall(surface, Math.floor(index / width), index % width, cell, isWall);
  return canvas;
}

/** Sand: a faint chequer that helps to count cells, and pebbles where there is room for them. */
function paintFloor(surface: Surface, height: number, width: number, cell: number): void {
  const random = roll(7); // fixed seed: the ground must not change between frames
  fill(surface, SAND, 0, 0, width * cell, height * cell);
  for (let y = 0; y < height; y++) {
    for (let x = (y + 1) % 2; x < width; x += 2) fill(surface, SAND_SHADE, x * cell, y * cell, cell, cell);
  }
  if (cell < FINE_CELL) return;
  const side = Math.max(1, Math.floor(cell / 14));
  for (const color of [PEBBLE, SAND_LIGHT]) {
    for (let count = (height * width) >> 1; count > 0; count--) {
      fill(surface, color, Math.floor(random() * (width * cell - side)), Math.floor(random() * (height * cell - side)), side, side);
    }
  }
}

/** Light comes from the north-west. One path, so that neighbours do not darken each other's shadow. */
function castShadows(surface: Surface, walls: number[], width: number, cell: number, reach: number, strength: number): void {
  surface.beginPath();
  for (const index of walls) surface.rect((index % width) * cell, Math.floor(index / width) * cell, cell + reach, cell + reach);
  surface.fillStyle = css(SHADOW, strength);
  surface.fill();
}

/** A light top, and a dark front where the cell to the south is open. */
function paintWall(surface: Surface, y: number, x: number, cell: number, isWall: (y: number, x: number) => boolean): void {
  const [left, top] = [x * cell, y * cell];
  const [front, edge] = [Math.max(1, Math.round(cell * 0.36)), Math.max(1, Math.round(cell * 0.08))];
  fill(surface, WALL_TOP, left, top, cell, cell);
  if (!isWall(y - 1, x)) fill(surface, WALL_EDGE, left, top, cell, edge);
  if (!isWall(y, x - 1)) fill(surface, WALL_EDGE, left, top, edge, cell);
  if (!isWall(y, x + 1)) fill(surface, mix(WALL_TOP, WALL_FRONT, 0.5), left + cell - edge, top, edge, cell);
  if (isWall(y + 1, x)) return;
  fill(surface, WALL_FRONT, left, top + cell - front, cell, front);
  fill(surface, mix(WALL_TOP, WALL_EDGE, 0.6), left, top + cell - front, cell, 1);
  if (cell >= FINE_CELL) fill(surface, WALL_FOOT, left, top + cell - edge, cell, edge);
}

function fill(surface: Surface, color: Color, x: number, y: number, width: number, height: number): void {
  surface.fillStyle = css(color);
  surface.fillRect(x, y, width, height);
}

/** Numbers from 0 to 1 that are the same each time. */
function roll(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
