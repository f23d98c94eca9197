// Reads JSON into nodes that know where they stand in the text: payloads are shown as they were
// sent, numbers beyond 2^53 and repeated names too.

export type Node =
  | { kind: "object"; start: number; end: number; entries: { name: string; value: Node }[] }
  | { kind: "array"; start: number; end: number; items: Node[] }
  | { kind: "string" | "number" | "word"; start: number; end: number; text: string };

/** Deeper text is shown as text only. */
const DEPTH_MAX = 200;

/** The node of the whole text; null if it is not JSON. */
export function readJson(text: string): Node | null {
  const reader = new Reader(text);
  try {
    const node = reader.value(0);
    reader.space();
    return reader.at === text.length ? node : null;
  } catch {
    return null;
  }
}

/** The text of a field of a JSON object, byte for byte and however deep; null if it has none. */
export function rawField(text: string, name: string): string | null {
  try {
    return new Reader(text).field(name);
  } catch {
    return null;
  }
}

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  space() {
    while (" \t\r\n".includes(this.text[this.at] ?? "x")) this.at += 1;
  }

  field(wanted: string): string | null {
    let found: string | null = null;
    this.space();
    this.each("}", () => {
      this.space();
      const name = this.string();
      this.space();
      this.take(":");
      this.space();
      const start = this.at;
      this.skip();
      if (name === wanted) found ??= this.text.slice(start, this.at);
    });
    return found;
  }

  /** Passes over a value, without going down into it. */
  private skip() {
    let depth = 0;
    do {
      const char = this.text[this.at];
      if (char === undefined) throw new Error("no end");
      if (char === '"') {
        this.string();
        continue;
      }
      if (char === "{" || char === "[") depth += 1;
      if (char === "}" || char === "]") depth -= 1;
      this.at += 1;
    } while (depth > 0 || !",}] \t\r\n".includes(this.text[this.at] ?? ","));
  }

  value(depth: number): Node {
    if (depth > DEPTH_MAX) throw new Error("too deep");
    this.space();
    const start = this.at;
    const first = this.text[start];
    if (first === "{") return this.object(start, depth);
    if (first === "[") return this.array(start, depth);
    if (first === '"') {
      const text = this.string();
      return { kind: "string", start, end: this.at, text };
    }
    const word = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/.exec(this.text.slice(start, start + 400))?.[0];
    if (!word) throw new Error("not JSON");
    this.at += word.length;
    return { kind: /^[tfn]/.test(word) ? "word" : "number", start, end: this.at, text: word };
  }

  private object(start: number, depth: number): Node {
    const entries: { name: string; value: Node }[] = [];
    this.each("}", () => {
      this.space();
      const name = this.string();
      this.space();
      this.take(":");
      entries.push({ name, value: this.value(depth + 1) });
    });
    return { kind: "object", start, end: this.at, entries };
  }

  private array(start: number, depth: number): Node {
    const items: Node[] = [];
    this.each("]", () => items.push(this.value(depth + 1)));
    return { kind: "array", start, end: this.at, items };
  }

  private each(close: string, item: () => void) {
    this.at += 1;
    this.space();
    if (this.text[this.at] === close) return void (this.at += 1);
    for (;;) {
      item();
      this.space();
      if (this.text[this.at] === close) return void (this.at += 1);
      this.take(",");
    }
  }

  private take(char: string) {
    if (this.text[this.at] !== char) throw new Error(`no ${char}`);
    this.at += 1;
  }

  private string(): string {
    const start = this.at;
    this.take('"');
    while (this.text[this.at] !== '"') {
      if (this.at >= this.text.length) throw new Error("no end");
      this.at += this.text[this.at] === "\\" ? 2 : 1;
    }
    this.at += 1;
    return JSON.parse(this.text.slice(start, this.at)) as string;
  }
}

/** What is wrong with a text as JSON; empty if nothing is. */
export function whyNotJson(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return (error as Error).message.slice(0, 120) || "?";
  }
}
