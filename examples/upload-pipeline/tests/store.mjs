// A store that speaks the calls of S3 that the pipeline makes, in a process of its own that a test
// may kill. Its objects are files of a directory. `node store.mjs DIRECTORY PORT`
import { mkdirSync, openSync, closeSync, readSync, fstatSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const [directory, port] = process.argv.slice(2);
mkdirSync(directory, { recursive: true });
const at = (...names) => join(directory, names.map(encodeURIComponent).join("~"));

createServer(async (request, response) => {
  const url = new URL(request.url, "http://store");
  const object = decodeURIComponent(url.pathname.split("/").slice(2).join("/"));
  const upload = url.searchParams.get("uploadId");
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const answer = (status, text = "", headers = {}) => response.writeHead(status, headers).end(text);
  const parts = () => readdirSync(directory).filter((name) => name.startsWith(`${encodeURIComponent(upload)}~`));
  const put = (path) => { writeFileSync(`${path}.new`, body); renameSync(`${path}.new`, path); };
  switch (`${request.method} ${upload ? "part" : object ? "object" : "bucket"}`) {
    case "HEAD bucket": return answer(200);
    case "GET bucket": return answer(200, "<ListMultipartUploadsResult/>");
    case "PUT object": put(at("object", object)); return answer(200);
    case "POST object": return answer(200, `<UploadId>of-${encodeURIComponent(object)}</UploadId>`);
    case "PUT part": put(at(upload, url.searchParams.get("partNumber").padStart(5, "0"))); return answer(200, "", { etag: '"part"' });
    case "POST part":
      writeFileSync(at("object", object), Buffer.concat(parts().sort().map((name) => readFileSync(join(directory, name)))));
      for (const name of parts()) rmSync(join(directory, name));
      return answer(200, "<CompleteMultipartUploadResult/>");
    case "DELETE part": for (const name of parts()) rmSync(join(directory, name)); return answer(204);
    case "DELETE object": rmSync(at("object", object), { force: true }); return answer(204);
    case "GET object": {
      let file;
      try { file = openSync(at("object", object)); } catch { return answer(404, "<Error><Code>NoSuchKey</Code></Error>"); }
      const [from, to] = request.headers.range.slice("bytes=".length).split("-").map(Number);
      const length = Math.min(to + 1, fstatSync(file).size) - from;
      const bytes = Buffer.alloc(Math.max(0, length));
      if (length > 0) readSync(file, bytes, 0, length, from);
      closeSync(file);
      return length > 0 ? answer(206, bytes) : answer(416);
    }
    default: return answer(501);
  }
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
