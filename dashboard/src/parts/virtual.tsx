// A list that scrolls with the page and draws only the rows that can be seen.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows drawn above and below what can be seen. */
const SPARE = 8;

interface Props {
  rows: number;
  rowHeight: number;
  row(index: number): ComponentChildren;
  /** Called as the end comes near. */
  nearEnd?: () => void;
  /** A row that shall be seen. */
  show?: number;
  label: string;
}

export function Virtual({ rows, rowHeight, row, nearEnd, show, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, end: 40 });

  const measure = () => {
    const top = -(box.current?.getBoundingClientRect().top ?? 0);
    const first = Math.max(0, Math.floor(top / rowHeight) - SPARE);
    const end = Math.min(rows, Math.ceil((top + innerHeight) / rowHeight) + SPARE);
    setRange((old) => (old.first === first && old.end === end ? old : { first, end: Math.max(end, first) }));
    if (nearEnd && top + innerHeight * 2 > rows * rowHeight) nearEnd();
  };
  const latest = useRef(measure);
  latest.current = measure;

  useEffect(() => {
    let frame = 0;
    const soon = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => latest.current());
    };
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, []);
  useLayoutEffect(() => latest.current(), [rows, rowHeight]);
  useLayoutEffect(() => {
    if (show === undefined || !box.current) return;
    const top = box.current.getBoundingClientRect().top + show * rowHeight;
    const under = 130; // the bar and the head of the list
    if (top < under) scrollBy(0, top - under);
    else if (top + rowHeight * 2 > innerHeight) scrollBy(0, top + rowHeight * 2 - innerHeight);
  }, [show]);

  const drawn = [];
  for (let index = range.first; index < Math.min(range.end, rows); index += 1) drawn.push(row(index));
  return (
    <div ref={box} class="virtual" role="rowgroup" aria-label={label} style={{ height: `${rows * rowHeight}px` }}>
      <div class="window" style={{ transform: `translateY(${range.first * rowHeight}px)` }}>
        {drawn}
      </div>
    </div>
  );
}
