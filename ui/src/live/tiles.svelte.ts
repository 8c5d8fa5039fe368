// What the tiles of a mosaic show now. Decoding may overtake; what came earlier is then left out.
import type { Frame } from './frame.ts';
import { decode, shapeOf, type FrameImage } from './frame_image.ts';

export class Tile {
  image: FrameImage | null = $state.raw(null);
  numbers: Frame | null = $state.raw(null);
  arrival = 0; // of the newest that was shown

  constructor(readonly slot: number) {}

  put(image: FrameImage, arrival: number): void {
    if (arrival < this.arrival) return close(image);
    const before = this.image;
    [this.arrival, this.image, this.numbers] = [arrival, image, image.frame];
    if (before) setTimeout(() => close(before)); // once it is surely off the canvas
  }
}

export class Tiles {
  shape = $state(1.5); // width / height of the pictures
  hasImages = $state(false);
  private readonly tiles = new Map<number, Tile>();
  private arrivals = 0;

  of(slot: number): Tile {
    let tile = this.tiles.get(slot);
    if (!tile) this.tiles.set(slot, (tile = new Tile(slot)));
    return tile;
  }

  async show(frame: Frame): Promise<void> {
    const arrival = ++this.arrivals;
    const image = await decode(frame);
    this.shape = shapeOf(image);
    this.of(frame.slot).put(image, arrival);
    this.hasImages = true;
  }
}

function close(image: FrameImage): void {
  if ('bitmap' in image) image.bitmap.close();
}
