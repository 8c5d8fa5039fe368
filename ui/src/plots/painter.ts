// Draws curves into uPlot's canvas. Each has an x of its own, so nothing needs to be aligned, and bands cost no extra series.
import type uPlot from 'uplot';
import { firstAtOrAfter, type Curve } from '../lib/curves.ts';

const FEW = 80; // points up to which each is marked

export function paint(plot: uPlot, curves: readonly Curve[], isLog: boolean): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  const air = 3 * devicePixelRatio; // a mark on the edge is seen whole
  ctx.rect(bbox.left - air, bbox.top - air, bbox.width + 2 * air, bbox.height + 2 * air);
  ctx.clip();
  for (const curve of curves) paintBand(plot, curve, isLog);
  for (const curve of curves) paintLines(plot, curve, isLog);
  for (const curve of curves) paintBad(plot, curve);
  ctx.restore();
}

/** Indices of what is seen, with one point more on either side so that lines run out of the picture. */
function seen(plot: uPlot, curve: Curve): [number, number] {
  const { min = 0, max = 0 } = plot.scales['x'] ?? {};
  const last = firstAtOrAfter(curve.x, max ?? 0);
  return [Math.max(0, firstAtOrAfter(curve.x, min ?? 0) - 1), Math.min(curve.x.length - 1, last)];
}

function drawable(value: number | null | undefined, isLog: boolean): value is number {
  return typeof value === 'number' && (!isLog || value > 0);
}

function paintBand(plot: uPlot, curve: Curve, isLog: boolean): void {
  const { ctx } = plot;
  const [first, last] = seen(plot, curve);
  ctx.fillStyle = curve.look.colour;
  ctx.globalAlpha = 0.17;
  ctx.beginPath();
  let start = first;
  for (let place = first; place <= last + 1; place++) {
    const isGap = place > last || !drawable(curve.low[place], isLog) || !drawable(curve.high[place], isLog);
    if (!isGap) continue;
    if (place - start > 0) outline(plot, curve, start, place - 1);
    start = place + 1;
  }
  ctx.fill();
  ctx.globalAlpha = 1;
}

function outline(plot: uPlot, curve: Curve, start: number, end: number): void {
  const { ctx } = plot;
  for (let place = start; place <= end; place++) {
    const [x, y] = [plot.valToPos(curve.x[place]!, 'x', true), plot.valToPos(curve.high[place]!, 'y', true)];
    if (place === start) ctx.moveTo(x, y);
    else ctx.lineTo(x, y);
  }
  for (let place = end; place >= start; place--) {
    ctx.lineTo(plot.valToPos(curve.x[place]!, 'x', true), plot.valToPos(curve.low[place]!, 'y', true));
  }
  ctx.closePath();
}

function paintLines(plot: uPlot, curve: Curve, isLog: boolean): void {
  const { ctx } = plot;
  const scale = devicePixelRatio;
  const isSmoothed = curve.line.some((value, place) => value !== curve.mean[place]);
  ctx.strokeStyle = ctx.fillStyle = curve.look.colour;
  ctx.lineJoin = 'round';
  if (isSmoothed) {
    ctx.globalAlpha = 0.32;
    stroke(plot, curve, curve.mean, 1 * scale, [], isLog);
    ctx.globalAlpha = 1;
  }
  stroke(plot, curve, curve.line, 1.7 * scale, curve.look.dash, isLog);
  const [first, last] = seen(plot, curve);
  if (last - first >= FEW) return;
  for (let place = first; place <= last; place++) {
    const value = curve.mean[place];
    if (!drawable(value, isLog)) continue;
    ctx.beginPath();
    ctx.arc(plot.valToPos(curve.x[place]!, 'x', true), plot.valToPos(value, 'y', true), 2.2 * scale, 0, 2 * Math.PI);
    ctx.fill();
  }
}

function stroke(plot: uPlot, curve: Curve, values: readonly (number | null)[], width: number, dash: readonly number[], isLog: boolean): void {
  const { ctx } = plot;
  const [first, last] = seen(plot, curve);
  ctx.lineWidth = width;
  ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
  ctx.beginPath();
  let isDown = false;
  for (let place = first; place <= last; place++) {
    const value = values[place];
    if (!drawable(value, isLog)) {
      isDown = false;
      continue;
    }
    const [x, y] = [plot.valToPos(curve.x[place]!, 'x', true), plot.valToPos(value, 'y', true)];
    if (isDown) ctx.lineTo(x, y);
    else ctx.moveTo(x, y);
    isDown = true;
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

/** What was not a number has no height: a small cross at the foot says that it was there. */
function paintBad(plot: uPlot, curve: Curve): void {
  const { ctx, bbox } = plot;
  const size = 3 * devicePixelRatio;
  const y = bbox.top + bbox.height - 2 * size;
  ctx.strokeStyle = curve.look.colour;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  for (const at of curve.bad) {
    const x = plot.valToPos(at, 'x', true);
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x + size, y - size);
    ctx.lineTo(x - size, y + size);
  }
  ctx.stroke();
}
