// From a frame to a canvas: a JPEG is decoded aside, a state is drawn here.
import { drawWorld } from '../arena/draw.ts';
import { readWorld } from '../arena/message.ts';
import type { World } from '../arena/world.ts';
import type { Frame } from './frame.ts';

/** What can be put on a canvas: decoded, checked, and no larger than it said. */
export type FrameImage = { frame: Frame; bitmap: ImageBitmap } | { frame: Frame; world: World };

export async function decode(frame: Frame): Promise<FrameImage> {
  if (frame.kind === 'state') return { frame, world: readWorld(frame.body) };
  const bitmap = await createImageBitmap(new Blob([frame.body], { type: 'image/jpeg' }));
  if (bitmap.width === frame.width && bitmap.height === frame.height) return { frame, bitmap };
  bitmap.close();
  throw new Error('The size of the frame differs from its header.');
}

/** `side`: pixels that a drawn world may have. */
export function paint(canvas: HTMLCanvasElement, image: FrameImage, side: number, marked: readonly number[] = []): void {
  if ('world' in image) {
    drawWorld(canvas, image.world, side, marked);
    return;
  }
  const { bitmap } = image;
  if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
  canvas.getContext('2d')?.drawImage(bitmap, 0, 0);
}

export function shapeOf(image: FrameImage): number {
  return 'world' in image ? image.world.width / image.world.height : image.bitmap.width / image.bitmap.height;
}
