// The state message of Arena (docs/arena.md): the whole world, little-endian. What does not fit is an error.
import { believable, ITEMS, type Agent, type Station, type World } from './world.ts';

const HEADER = 24; // bytes
const STATION = 8;
const AGENT = 6 + ITEMS.length;

export function readWorld(data: Uint8Array): World {
  if (data.length < HEADER) throw new Error(`A state message has ${data.length} bytes; its header alone has ${HEADER}.`);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  if (view.getUint16(0) !== 0x4152 || view.getUint8(2) !== 1 || view.getUint8(3) !== 0) throw new Error('This is not a complete state of version 1.');
  if (view.getUint8(22) !== ITEMS.length) throw new Error(`The message has ${view.getUint8(22)} kinds of items.`);
  const [height, width] = [view.getUint8(16), view.getUint8(17)];
  const [agentCount, stationCount] = [view.getUint16(18, true), view.getUint16(20, true)];
  const wallBytes = Math.ceil((height * width) / 8);
  const expected = HEADER + wallBytes + stationCount * STATION + agentCount * AGENT;
  if (data.length !== expected) throw new Error(`A state message has ${data.length} bytes; ${expected} were expected.`);
  const stationsAt = HEADER + wallBytes;
  const agentsAt = stationsAt + stationCount * STATION;
  return believable({
    step: view.getUint32(8, true),
    maxSteps: view.getUint32(12, true),
    height,
    width,
    walls: Uint8Array.from({ length: height * width }, (_, cell) => (data[HEADER + (cell >> 3)]! >> (7 - (cell & 7))) & 1),
    stations: Array.from({ length: stationCount }, (_, index) => readStation(view, stationsAt + index * STATION)),
    agents: Array.from({ length: agentCount }, (_, index) => readAgent(data, agentsAt + index * AGENT)),
  });
}

function readStation(view: DataView, at: number): Station {
  const [y, x, kind, cooldown] = [0, 1, 2, 3].map((offset) => view.getUint8(at + offset)) as [number, number, number, number];
  return { y, x, kind, cooldown, stock: view.getInt32(at + 4, true) };
}

function readAgent(data: Uint8Array, at: number): Agent {
  const [y, x, facing, frozen, team, action] = data.subarray(at, at + 6) as unknown as [number, number, number, number, number, number];
  return { y, x, facing, frozen, team, action: action - 1, items: [...data.subarray(at + 6, at + AGENT)] };
}
