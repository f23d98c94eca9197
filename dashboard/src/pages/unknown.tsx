// An address that leads to no page.
import { href } from "../app/route";
import { Heading } from "../parts/heading";
import { visible } from "../parts/payload";
import { useWords } from "../words";

export function Unknown({ path }: { path: string[] }) {
  const words = useWords();
  const pages = [["overview", []], ["jobs", ["jobs"]], ["workers", ["workers"]], ["engine", ["engine"]], ["audit", ["audit"]]] as const;
  return (
    <section class="panel unknown">
      <Heading name={words.unknown.title} />
      <p>{words.unknown.text} <code>{visible(href(path))}</code></p>
      <ul>{pages.map(([name, to]) => <li key={name}><a href={href([...to])}>{words.nav[name]}</a></li>)}</ul>
    </section>
  );
}
