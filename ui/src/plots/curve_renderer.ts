// Draws curves into uPlot's canvas. Each has an x of its own, so nothing needs to be aligned, and bands cost no extra series.
import type uPlot from 'uplot';
import { firstAtOrAfter, type Curve } from '../lib/curves.ts';
import { envelope } from './envelope.ts';

const FEW = 80; // points up to which each is marked
const MOST_MARKS = 2000; // of a crowd of curves: thousands of them are half of the painting, and nobody tells them apart
// The more curves, the plainer each: from MANY on bands and marks are of whole pixels and nothing stands behind the line;
// from MANY_CURVES on, more than can be told apart, lines are hairlines before one band of all. Smooth edges cost five times as much.
const MANY = 8;
const MANY_CURVES = 28;
const AMONG_ALL = '#80889633'; // grey on light and on dark

/** From values to pixels of the canvas, worked out once for a whole chart: it is asked a hundred thousand times. */
class Brush {
  readonly ctx: CanvasRenderingContext2D;
  readonly from: number;
  readonly to: number;
  readonly left: number;
  readonly width: number;
  private readonly top: number;
  private readonly scaleX: number;
  private readonly scaleY: number;
  private readonly highest: number;

  constructor(
    plot: uPlot,
    private readonly isLog: boolean,
  ) {
    const { bbox, scales } = plot;
    const [low, high] = [this.height(scales['y']?.min ?? 0), this.height(scales['y']?.max ?? 1)];
    this.ctx = plot.ctx;
    this.from = scales['x']?.min ?? 0;
    this.to = scales['x']?.max ?? 1;
    [this.left, this.width, this.top, this.highest] = [bbox.left, bbox.width, bbox.top, high];
    this.scaleX = bbox.width / (this.to - this.from || 1);
    this.scaleY = bbox.height / (high - low || 1);
  }

  x(value: number): number {
    return this.left + (value - this.from) * this.scaleX;
  }

  y(value: number): number {
    return this.top + (this.highest - this.height(value)) * this.scaleY;
  }

  /** On a log axis there is no position for zero and below. */
  has(value: number): boolean {
    return this.isLog ? value > 0 : !Number.isNaN(value);
  }

  /** Indices of what is seen, with one point more on either side so that lines run out of the image. */
  seen({ x }: Pick<Curve, 'x'>): [number, number] {
    return [Math.max(0, firstAtOrAfter(x, this.from) - 1), Math.min(x.length - 1, firstAtOrAfter(x, this.to))];
  }

  private height(value: number): number {
    return this.isLog ? Math.log(value) : value;
  }
}

export function paint(plot: uPlot, curves: readonly Curve[], isLog: boolean): void {
  const { ctx, bbox } = plot;
  const brush = new Brush(plot, isLog);
  const air = 3 * devicePixelRatio; // a mark on the edge is seen whole
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - air, bbox.top - air, bbox.width + 2 * air, bbox.height + 2 * air);
  ctx.clip();
  const isMany = curves.length > MANY;
  if (curves.length > MANY_CURVES) paintEnvelope(brush, curves);
  else for (const curve of curves) (isMany ? paintColumns : paintBand)(brush, curve);
  for (const curve of curves) {
    if (!isMany) paintLines(brush, curve);
    else if (curves.length > MANY_CURVES) paintPlainly(brush, curve, 1, [], MOST_MARKS / curves.length);
    else paintPlainly(brush, curve, 1.5 * devicePixelRatio, curve.style.dash, FEW);
  }
  for (const curve of curves) if (curve.bad.length > 0) paintBad(brush, curve, bbox.top + bbox.height);
  ctx.restore();
}

function paintBand(brush: Brush, curve: Curve): void {
  if (curve.low === curve.mean && curve.high === curve.mean) return; // single points: the line says it all
  const { ctx } = brush;
  const [first, last] = brush.seen(curve);
  ctx.fillStyle = curve.style.colour;
  ctx.globalAlpha = 0.17;
  ctx.beginPath();
  let start = first;
  for (let index = first; index <= last + 1; index++) {
    const isGap = index > last || !brush.has(curve.low[index]!) || !brush.has(curve.high[index]!);
    if (!isGap) continue;
    if (index > start) outline(brush, curve, start, index - 1);
    start = index + 1;
  }
  ctx.fill();
  ctx.globalAlpha = 1;
}

/** The band as one column of whole pixels for each stretch, from its lowest to its highest. */
function paintColumns(brush: Brush, { x, low, high, mean, style }: Curve): void {
  if (low === mean && high === mean) return;
  const { ctx } = brush;
  const [first, last] = brush.seen({ x });
  ctx.fillStyle = style.colour;
  ctx.globalAlpha = 0.1;
  for (let index = first; index <= last; index++) {
    const [lowest, highest] = [low[index]!, high[index]!];
    if (!brush.has(lowest) || !brush.has(highest)) continue;
    const left = Math.round(brush.x(x[index]!));
    const width = index < last ? Math.max(1, Math.round(brush.x(x[index + 1]!)) - left) : 2;
    const top = Math.floor(brush.y(highest));
    ctx.fillRect(left, top, width, Math.max(1, Math.ceil(brush.y(lowest)) - top));
  }
  ctx.globalAlpha = 1;
}

function paintEnvelope(brush: Brush, curves: readonly Curve[]): void {
  const { ctx } = brush;
  const { tops, feet } = envelope(curves, brush);
  ctx.fillStyle = AMONG_ALL;
  tops.forEach((top, column) => {
    const foot = feet[column]!;
    if (top <= foot) ctx.fillRect(Math.round(brush.left) + column, top, 1, Math.max(1, foot - top));
  });
}

function outline(brush: Brush, { x, low, high }: Curve, start: number, end: number): void {
  const { ctx } = brush;
  ctx.moveTo(brush.x(x[start]!), brush.y(high[start]!));
  for (let index = start + 1; index <= end; index++) ctx.lineTo(brush.x(x[index]!), brush.y(high[index]!));
  for (let index = end; index >= start; index--) ctx.lineTo(brush.x(x[index]!), brush.y(low[index]!));
  ctx.closePath();
}

function paintLines(brush: Brush, curve: Curve): void {
  const { ctx } = brush;
  const scale = devicePixelRatio;
  ctx.strokeStyle = ctx.fillStyle = curve.style.colour;
  ctx.lineJoin = 'round';
  if (curve.line !== curve.mean && curve.line.some((value, index) => !Object.is(value, curve.mean[index]))) {
    ctx.globalAlpha = 0.32;
    stroke(brush, curve, curve.mean, scale, []);
    ctx.globalAlpha = 1;
  }
  stroke(brush, curve, curve.line, 1.7 * scale, curve.style.dash);
  const [first, last] = brush.seen(curve);
  if (last - first >= FEW) return;
  const size = 4 * scale;
  ctx.beginPath();
  for (let index = first; index <= last; index++) {
    const value = curve.mean[index]!;
    if (brush.has(value)) ctx.roundRect(brush.x(curve.x[index]!) - size / 2, brush.y(value) - size / 2, size, size, size / 2);
  }
  ctx.fill();
}

/** Marks up to `few` points, of whole pixels. */
function paintPlainly(brush: Brush, curve: Curve, width: number, dash: readonly number[], few: number): void {
  const { ctx } = brush;
  ctx.strokeStyle = ctx.fillStyle = curve.style.colour;
  ctx.lineJoin = 'bevel';
  stroke(brush, curve, curve.line, width, dash);
  const [first, last] = brush.seen(curve);
  if (last - first >= few) return;
  for (let index = first; index <= last; index++) {
    const value = curve.mean[index]!;
    if (brush.has(value)) ctx.fillRect(Math.round(brush.x(curve.x[index]!)) - 1, Math.round(brush.y(value)) - 1, 2, 2);
  }
}

function stroke(brush: Brush, curve: Curve, values: Float64Array, width: number, dash: readonly number[]): void {
  const { ctx } = brush;
  const [first, last] = brush.seen(curve);
  ctx.lineWidth = width;
  if (dash.length > 0) ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
  ctx.beginPath();
  let isDown = false;
  for (let index = first; index <= last; index++) {
    const value = values[index]!;
    if (!brush.has(value)) isDown = false;
    else if (isDown) ctx.lineTo(brush.x(curve.x[index]!), brush.y(value));
    else {
      ctx.moveTo(brush.x(curve.x[index]!), brush.y(value));
      isDown = true;
    }
  }
  ctx.stroke();
  if (dash.length > 0) ctx.setLineDash([]);
}

/** What was not a number has no height: a small cross at the foot says that it was there. */
function paintBad(brush: Brush, curve: Curve, foot: number): void {
  const { ctx } = brush;
  const size = 3 * devicePixelRatio;
  const y = foot - 2 * size;
  ctx.strokeStyle = curve.style.colour;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  for (const at of curve.bad) {
    const x = brush.x(at);
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x + size, y - size);
    ctx.lineTo(x - size, y + size);
  }
  ctx.stroke();
}
