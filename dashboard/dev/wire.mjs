// Jobs to and from JSON with payloads byte for byte.

/** A job as lists show it: that many characters of its payload. */
export function writeListed({ payload, payload_base64: base64, ...job }, characters) {
  const preview = base64 === undefined ? (payload ?? "").slice(0, characters) : undefined;
  return JSON.stringify({ ...job, preview, payload_bytes: Buffer.byteLength(payload ?? "") || Buffer.from(base64 ?? "", "base64").length });
}

export function writeJob(job, payloads) {
  const { payload, payload_base64: base64, ...rest } = job;
  const text = JSON.stringify(rest);
  if (!payloads) return text;
  if (base64 !== undefined) return `${text.slice(0, -1)},"payload_base64":${JSON.stringify(base64)}}`;
  return payload === undefined ? text : `${text.slice(0, -1)},"payload":${payload}}`;
}

/** The value sent; of one job the payload's own text, of several each payload written anew. */
export function readSent(text) {
  const value = JSON.parse(text);
  const payloads = Array.isArray(value)
    ? value.map((job) => JSON.stringify(job.payload ?? null))
    : [rawPayload(text) ?? JSON.stringify(value.payload ?? null)];
  for (const job of Array.isArray(value) ? value : [value]) delete job.payload;
  return { value, payloads };
}

/** Of what the page's own form sends: the payload is the last field. */
const rawPayload = (text) => /"payload":([\s\S]*)\}$/.exec(text)?.[1];
