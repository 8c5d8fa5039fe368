// A world as a image: the ground of its map, and a sprite for each station and agent.
import { css, INK, WHITE } from './palette.ts';
import { ground } from './ground.ts';
import { agentSprite, stationSprite } from './sprites.ts';
import type { World } from './world.ts';

const SMALLEST_CELL = 4; // pixels
const LARGEST_CELL = 96;

/** Sizes the canvas to whole cells within `side` pixels and draws; `marked` agents get a ring. */
export function drawWorld(canvas: HTMLCanvasElement, world: World, side: number, marked: readonly number[] = []): void {
  const cell = cellSize(world, side);
  const [width, height] = [world.width * cell, world.height * cell];
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const surface = canvas.getContext('2d');
  if (!surface) return;
  surface.drawImage(ground(world, cell), 0, 0);
  for (const station of world.stations) surface.drawImage(stationSprite(cell, station), station.x * cell, station.y * cell);
  for (const agent of world.agents) surface.drawImage(agentSprite(cell, agent), agent.x * cell, agent.y * cell);
  for (const index of marked) {
    const agent = world.agents[index];
    if (agent) ring(surface, (agent.x + 0.5) * cell, (agent.y + 0.5) * cell, cell);
  }
}

export function cellSize(world: World, side: number): number {
  return Math.min(Math.max(Math.floor(side / Math.max(world.height, world.width)), SMALLEST_CELL), LARGEST_CELL);
}

function ring(surface: CanvasRenderingContext2D, x: number, y: number, cell: number): void {
  for (const [color, width] of [[INK, 4], [WHITE, 2]] as const) {
    surface.beginPath();
    surface.arc(x, y, cell * 0.72, 0, 2 * Math.PI);
    surface.lineWidth = width;
    surface.strokeStyle = css(color);
    surface.stroke();
  }
}
