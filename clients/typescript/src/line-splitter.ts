/** Splits a stream of bytes into lines. Only LF ends a line. */

const LF = 0x0a;

export class LineSplitter {
  /** The beginning of a line whose LF has not come yet. */
  #pieces: Uint8Array[] = [];
  readonly #onLine: (line: string) => void;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /**
   * Takes the next bytes. A line is decoded when it is complete, so a character may be divided
   * between two chunks.
   */
  push(chunk: Uint8Array): void {
    let start = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      this.#pieces.push(chunk.subarray(start, end));
      this.#emit();
      start = end + 1;
    }
    if (start < chunk.length) this.#pieces.push(chunk.subarray(start));
  }

  /** The stream has ended. Its last line may lack the LF. */
  end(): void {
    if (this.#pieces.length > 0) this.#emit();
  }

  #emit(): void {
    const pieces = this.#pieces;
    this.#pieces = [];
    const line = Buffer.concat(pieces).toString("utf8");
    if (line.trim() !== "") this.#onLine(line);
  }
}
