// Snapshots and films of a mosaic: its tiles are put together on a canvas of their own, with their lines below.
import { blank } from '../arena/brush.ts';

export interface Shown {
  canvas: HTMLCanvasElement;
  line: string;
}

const LINE = 22; // pixels below each tile
const FPS = 15;
const BITS = 4_000_000; // a second
const [GROUND, INK] = ['#0e1114', '#e7eaee'];

/** All tiles as one image, `columns` beside each other, with the HUD below. */
export function compose(target: HTMLCanvasElement, tiles: readonly Shown[], columns: number, footer: string): void {
  const width = Math.max(...tiles.map((one) => one.canvas.width), 160);
  const height = Math.max(...tiles.map((one) => one.canvas.height), 1);
  const rows = Math.ceil(tiles.length / columns);
  const [wide, high] = [columns * width, rows * (height + LINE) + LINE];
  if (target.width !== wide || target.height !== high) [target.width, target.height] = [wide, high];
  const surface = target.getContext('2d');
  if (!surface) return;
  surface.fillStyle = GROUND;
  surface.fillRect(0, 0, wide, high);
  surface.font = '12px system-ui, sans-serif';
  surface.textBaseline = 'middle';
  tiles.forEach(({ canvas, line }, index) => {
    const [x, y] = [(index % columns) * width, Math.floor(index / columns) * (height + LINE)];
    surface.drawImage(canvas, x + (width - canvas.width) / 2, y + (height - canvas.height) / 2);
    surface.fillStyle = INK;
    surface.fillText(line, x + 6, y + height + LINE / 2, width - 12);
  });
  surface.fillText(footer, 6, high - LINE / 2, wide - 12);
}

export function save(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function snapshot(tiles: readonly Shown[], columns: number, footer: string, name: string): void {
  const [canvas] = blank(1, 1);
  compose(canvas, tiles, columns, footer);
  canvas.toBlob((content) => content && save(content, `${name}.png`), 'image/png');
}

export const canRecord = typeof MediaRecorder !== 'undefined' && MediaRecorder.isTypeSupported('video/webm');

/** Records until the returned function is called, which saves the video. The size stays as it was at the start. */
export function recordVideo(tiles: () => readonly Shown[], columns: number, footer: () => string, name: string): () => void {
  const [canvas, surface] = blank(1, 1);
  const [draft] = blank(1, 1);
  compose(canvas, tiles(), columns, footer());
  const timer = setInterval(() => {
    compose(draft, tiles(), columns, footer());
    surface.drawImage(draft, 0, 0, canvas.width, canvas.height);
  }, 1000 / FPS);
  const parts: Blob[] = [];
  const recorder = new MediaRecorder(canvas.captureStream(FPS), { mimeType: 'video/webm', videoBitsPerSecond: BITS });
  recorder.ondataavailable = (event) => parts.push(event.data);
  recorder.onstop = () => save(new Blob(parts, { type: 'video/webm' }), `${name}.webm`);
  recorder.start(1000);
  return () => {
    clearInterval(timer);
    if (recorder.state !== 'inactive') recorder.stop();
  };
}
