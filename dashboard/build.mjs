// Builds the page into the gateway's assets. With --check it writes nothing and fails if the
// committed assets are not what the sources build.
import { build } from "esbuild";
import { mkdir, readFile, rm, writeFile, readdir } from "node:fs/promises";
import { brotliCompressSync, gzipSync } from "node:zlib";

const assets = new URL("../crates/punctual-gateway/assets/", import.meta.url);
const here = (path) => new URL(path, import.meta.url);
const FIRST_PAINT_BYTES_MAX = 150_000; // compressed, everything the page loads

/** Their licences ask to be passed on with their code. */
async function licences() {
  const texts = await Promise.all(["preact", "uplot"].map(async (name) => `${name}\n${(await readFile(here(`node_modules/${name}/LICENSE`), "utf8")).trim()}`));
  return `/*! Contains:\n\n${texts.join("\n\n")}\n*/`.replaceAll("\r", "");
}

async function bundle() {
  const result = await build({
    entryPoints: { app: here("src/main.tsx").pathname },
    bundle: true,
    minify: true,
    write: false,
    outdir: "out",
    target: ["es2022"],
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    charset: "utf8",
    banner: { js: await licences() },
    logLevel: "warning",
  });
  const files = new Map(result.outputFiles.map((file) => [file.path.split("/").pop(), Buffer.from(file.contents)]));
  for (const name of ["index.html", "icon.svg"]) files.set(name, await readFile(here(`src/${name}`)));
  return files;
}

async function onDisk() {
  const names = await readdir(assets).catch(() => []);
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(new URL(name, assets))])));
}

const files = await bundle();
const total = [...files.values()].reduce((sum, bytes) => sum + gzipSync(bytes, { level: 9 }).length, 0);
if (total > FIRST_PAINT_BYTES_MAX) {
  console.error(`the page is ${total} bytes compressed; at most ${FIRST_PAINT_BYTES_MAX}`);
  process.exit(1);
}
if (process.argv.includes("--check")) {
  const disk = await onDisk();
  const wrong = [...new Set([...files.keys(), ...disk.keys()])].filter((name) => !files.get(name)?.equals(disk.get(name) ?? Buffer.of()));
  if (wrong.length) {
    console.error(`not what the sources build: ${wrong.join(", ")}; run \`npm run build\` in dashboard/ and commit`);
    process.exit(1);
  }
  console.log("the assets are what the sources build");
} else {
  await rm(assets, { recursive: true, force: true });
  await mkdir(assets, { recursive: true });
  for (const [name, bytes] of files) await writeFile(new URL(name, assets), bytes);
}
const line = (name, bytes) =>
  console.log(`${name.padEnd(12)} ${String(bytes.length).padStart(8)}  gzip ${String(gzipSync(bytes, { level: 9 }).length).padStart(7)}  br ${String(brotliCompressSync(bytes).length).padStart(7)}`);
for (const [name, bytes] of files) line(name, bytes);
console.log(`all together ${total} bytes with gzip, at most ${FIRST_PAINT_BYTES_MAX}`);
