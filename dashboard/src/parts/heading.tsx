// The one `h1` of a page, and the title of its tab.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { visible } from "./payload";

interface Props {
  /** What the tab and the window are called. */
  name: string;
  /** What the heading shows, if not the name. */
  children?: ComponentChildren;
  /** Only read aloud: where the page begins with what is wrong. */
  hidden?: boolean;
}

export function Heading({ name, children, hidden }: Props) {
  useEffect(() => void (document.title = `${visible(name)} · Punctual`), [name]);
  return <h1 class={hidden ? "spoken" : ""}>{children ?? visible(name)}</h1>;
}
