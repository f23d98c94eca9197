// The page of workers.

import { stats } from "../api/client";
import { useRead } from "../app/query";
import { Heading } from "../parts/heading";
import { Failure } from "../parts/small";
import { WorkerTable } from "../parts/workertable";
import { useWords } from "../words";

export function Workers() {
  const words = useWords();
  const read = useRead("workers", (stop) => stats({}, stop), { every: 3_000 });
  if (!read.data) return read.error ? <Failure error={read.error} again={read.again} /> : <p class="empty">{words.list.loading}</p>;
  return <><header class="title"><Heading name={words.workers.title} /></header><WorkerTable workers={read.data.workers} open /></>;
}
