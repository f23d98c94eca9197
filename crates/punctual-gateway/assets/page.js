// Queues and their counts, asked for once a second. The token comes with the address, after its #.
const STATES = ["held", "scheduled", "ready", "active", "completed", "cancelled", "dead"];
const says = document.querySelector("#says");
const table = document.querySelector("table");

const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? sessionStorage.getItem("token");
if (token) {
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname);
}

function row(cells, kind) {
  const line = document.createElement("tr");
  for (const text of cells) {
    const cell = document.createElement(kind);
    cell.textContent = text;
    line.append(cell);
  }
  return line;
}

async function show() {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch("v1/queues", { headers });
  const body = await answer.json();
  table.hidden = !answer.ok;
  if (!answer.ok) {
    says.textContent = `${body.error.message}. ${body.error.hint ?? ""}`;
    return;
  }
  says.textContent = body.queues.length ? `As of ${body.now}` : "No queue yet: put a job in.";
  table.tHead.replaceChildren(row(["queue", ...STATES], "th"));
  const lines = body.queues.map((queue) =>
    row([queue.paused ? `${queue.queue} (paused)` : queue.queue, ...STATES.map((state) => queue[state])], "td"));
  table.tBodies[0].replaceChildren(...lines);
}

async function go() {
  try {
    await show();
  } catch {
    says.textContent = "The gateway does not answer.";
  }
  setTimeout(go, 1000);
}
go();
