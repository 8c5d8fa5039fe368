// One live image as it comes over the socket: 64 bytes that say what it is, then a JPEG or a state. See docs/live.md.
export const HEADER = 64; // bytes
const MAGIC = 0x5046; // "PF"
const [JPEG, STATE] = [1, 2];
const LARGEST = 4096; // pixels of a side
const MOST_SLOTS = 1024;

export interface Frame {
  kind: 'jpeg' | 'state';
  slot: number;
  width: number; // pixels; 0 for a state
  height: number;
  sequence: number;
  envStep: number;
  length: number; // steps of the episode so far
  capturedAt: number; // seconds since 1970
  reward: number; // of the last step
  total: number; // return so far; NaN where nobody keeps it
  body: Uint8Array<ArrayBuffer>;
}

/** The frame, or, in a few words, why it is none. */
export function readFrame(data: ArrayBuffer): Frame | string {
  if (data.byteLength <= HEADER) return 'too short';
  const view = new DataView(data);
  if (view.getUint16(0) !== MAGIC) return 'no frame of ours';
  if (view.getUint8(2) !== 1) return `of version ${view.getUint8(2)}`;
  const codec = view.getUint8(3);
  if (codec !== JPEG && codec !== STATE) return 'of an unknown kind';
  const [slot, width, height] = [view.getUint16(4, true), view.getUint16(6, true), view.getUint16(8, true)];
  if (slot >= MOST_SLOTS) return 'of a slot that cannot be';
  if (codec === JPEG && (Math.min(width, height) < 1 || Math.max(width, height) > LARGEST)) return 'of a size that cannot be';
  return {
    kind: codec === JPEG ? 'jpeg' : 'state',
    slot,
    width,
    height,
    sequence: Number(view.getBigUint64(16, true)),
    envStep: Number(view.getBigUint64(24, true)),
    length: Number(view.getBigUint64(32, true)),
    capturedAt: view.getFloat64(40, true),
    reward: view.getFloat64(48, true),
    total: view.getFloat64(56, true),
    body: new Uint8Array(data, HEADER),
  };
}
