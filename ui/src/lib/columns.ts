// Curves as the daemon sends them to charts: columns of doubles, looked at where they lie. NaN: nothing is known.

export interface Columns {
  run: string;
  name: string;
  x: Float64Array;
  min: Float64Array;
  max: Float64Array;
  mean: Float64Array;
  count: Float64Array;
  bad: Float64Array; // how many in each stretch were not numbers
}

interface Told {
  run: string;
  name: string;
  length: number;
}

/** A head (its length in four bytes, then JSON) and behind it six columns a curve; docs/api.md has the words. */
export function readColumns(bytes: ArrayBuffer): Columns[] {
  const size = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, size))) as { series: Told[] };
  let offset = 4 + size;
  return head.series.map(({ run, name, length }) => {
    const next = () => {
      const column = new Float64Array(bytes, offset, length);
      offset += column.byteLength;
      return column;
    };
    return { run, name, x: next(), min: next(), max: next(), mean: next(), count: next(), bad: next() };
  });
}
