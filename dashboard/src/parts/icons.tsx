// Signs as SVG: they look the same whatever fonts a machine has.

const PATHS = {
  auto: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z",
  dark: "M13.5 9.6A6 6 0 1 1 6.4 2.5a4.8 4.8 0 0 0 7.1 7.1z",
  light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M3 13l1.2-1.2M11.8 4.2 13 3",
  language: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM2 8h12M8 2c-5 4-5 8 0 12M8 2c5 4 5 8 0 12",
  key: "M4.5 4.6a3.4 3.4 0 1 0 0 6.8 3.4 3.4 0 0 0 0-6.8zM8 8h7M14.5 8v3.4M11 8v2.6",
  group: "M3 4h10M3 8h10M3 12h10",
  crash: "M9.2 1.5 4 9h3.6l-1 5.5L12 7H8.4z",
  cross: "M4 4l8 8M12 4l-8 8",
  warn: "M8 3v6M8 12v1",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
} as const;
/** What is filled of a sign. */
const FILLED: { [name in keyof typeof PATHS]?: string } = { auto: "M8 2v12A6 6 0 0 0 8 2z" };

export type IconName = keyof typeof PATHS;

/** A sign beside a word that says the same; with a label where no word does. */
export function Icon({ name, label }: { name: IconName; label?: string }) {
  const about = label ? { role: "img" as const, "aria-label": label } : { "aria-hidden": "true" as const };
  return <svg class="icon" viewBox="0 0 16 16" {...about}><path d={PATHS[name]} />{FILLED[name] ? <path class="filled" d={FILLED[name]} /> : null}</svg>;
}
