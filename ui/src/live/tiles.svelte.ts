// What the tiles of a mosaic show now. Decoding may overtake; what came earlier is then left out.
import type { Frame } from './frame.ts';
import { decode, shapeOf, type Picture } from './picture.ts';

export class Tile {
  picture: Picture | null = $state.raw(null);
  numbers: Frame | null = $state.raw(null);
  arrival = 0; // of the newest that was shown

  constructor(readonly slot: number) {}

  put(picture: Picture, arrival: number): void {
    if (arrival < this.arrival) return close(picture);
    const before = this.picture;
    [this.arrival, this.picture, this.numbers] = [arrival, picture, picture.frame];
    if (before) setTimeout(() => close(before)); // once it is surely off the canvas
  }
}

export class Tiles {
  shape = $state(1.5); // width / height of the pictures
  hasPictures = $state(false);
  private readonly tiles = new Map<number, Tile>();
  private arrivals = 0;

  of(slot: number): Tile {
    let tile = this.tiles.get(slot);
    if (!tile) this.tiles.set(slot, (tile = new Tile(slot)));
    return tile;
  }

  async show(frame: Frame): Promise<void> {
    const arrival = ++this.arrivals;
    const picture = await decode(frame);
    this.shape = shapeOf(picture);
    this.of(frame.slot).put(picture, arrival);
    this.hasPictures = true;
  }
}

function close(picture: Picture): void {
  if ('bitmap' in picture) picture.bitmap.close();
}
