// Shapes within one cell: lengths are parts of it, x goes right and y goes down, both from 0 to 1.
import { css, type Color } from './palette.ts';

export type Point = readonly [number, number];
export type Surface = CanvasRenderingContext2D;

export class Brush {
  constructor(
    readonly surface: Surface,
    readonly size: number, // pixels of the cell
  ) {
    surface.scale(size, size);
  }

  disc(x: number, y: number, radius: number, color: Color, opacity = 1): void {
    this.surface.beginPath();
    this.surface.arc(x, y, radius, 0, 2 * Math.PI);
    this.fill(color, opacity);
  }

  box(left: number, top: number, right: number, bottom: number, corner: number, color: Color, opacity = 1): void {
    this.surface.beginPath();
    this.surface.roundRect(left, top, right - left, bottom - top, corner);
    this.fill(color, opacity);
  }

  shape(corners: readonly Point[], color: Color, opacity = 1): void {
    this.surface.beginPath();
    for (const [x, y] of corners) this.surface.lineTo(x, y);
    this.surface.closePath();
    this.fill(color, opacity);
  }

  /** Two discs and a tip. */
  heart(x: number, y: number, width: number, color: Color): void {
    const [radius, lobe, top, reach] = [width * 0.275, width * 0.225, y - width * 0.16, width * 0.455];
    this.disc(x - lobe, top, radius, color);
    this.disc(x + lobe, top, radius, color);
    this.shape([[x - reach, top + radius * 0.55], [x + reach, top + radius * 0.55], [x, y + width * 0.47]], color);
  }

  /** Tints only what is already painted. */
  shade(color: Color, share: number): void {
    this.surface.globalCompositeOperation = 'source-atop';
    this.box(0, 0, 1, 1, 0, color, share);
    this.surface.globalCompositeOperation = 'source-over';
  }

  private fill(color: Color, opacity: number): void {
    this.surface.fillStyle = css(color, opacity);
    this.surface.fill();
  }
}

export function blank(width: number, height: number): [HTMLCanvasElement, Surface] {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [Math.max(1, width), Math.max(1, height)];
  const surface = canvas.getContext('2d');
  if (!surface) throw new Error('This browser has no canvas to draw on.');
  return [canvas, surface];
}

/** What was drawn before, the newest `most` of it. */
export class ImageCache {
  private readonly drawn = new Map<string, HTMLCanvasElement>();

  constructor(private readonly most: number) {}

  get(key: string, draw: () => HTMLCanvasElement): HTMLCanvasElement {
    const found = this.drawn.get(key) ?? draw();
    this.drawn.delete(key); // those used last stand at the end
    this.drawn.set(key, found);
    if (this.drawn.size > this.most) this.drawn.delete(this.drawn.keys().next().value!);
    return found;
  }
}
