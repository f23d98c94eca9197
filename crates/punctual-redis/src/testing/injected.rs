//! Bugs in the functions, injected where they are loaded: a line is replaced.
//!
//! A run that is to find them names one in the environment of its processes, each of which loads
//! the functions into a server of that run.

/// A bug, the text it takes the place of, and the text that is the bug.
type Inject = (&'static str, &'static str, &'static str);

const INJECTED: [Inject; 38] = [
    (
        "EarlyClearForgotten",
        "  S.early = true\n",
        "  call('DEL', key())\n",
    ),
    (
        "GuardNotCompared",
        "  if version == guard[2] then return nil end\n",
        "  do return nil end\n",
    ),
    (
        "GuardNotCompared",
        "  if version ~= (map.ex or 0) then return {gc",
        "  if false then return {gc",
    ),
    // What was settled stays in its lease, and is rescued with it.
    ("RescueWithoutStateCheck", "  Lease.depart(p, place)\n", ""),
    (
        "SettleWithoutToken",
        "    local p, q = Lease.load(report.token), nil\n",
        "    local first = report.items and report.items[1].id or sub(report.ids, 1, 16)\n    \
         local held = Job.load(first)\n    \
         local p, q = Lease.load(report.token) or (held and Lease.of(held)), nil\n",
    ),
    (
        "SettleWithoutToken",
        "  if not j or (j.ext.a or 0) + 1 ~= s.attempt then\n",
        "  if not j then\n",
    ),
    (
        "ExtendWithoutToken",
        "  local p, lease_duration, lost, asked = Lease.load(extend.token), extend.lease_duration, {}, {}\n",
        "  local held = #extend.notes == 0 and extend.jobs > 0\n    \
         and Job.load(sub(blob, extend.at, extend.at + 15))\n  \
         local p, lease_duration, lost, asked = Lease.load(extend.token) or (held and Lease.of(held)), extend.lease_duration, {}, {}\n",
    ),
    // As if a kill between two steps had lost every so many-th job.
    (
        "PromotedInTwoSteps",
        "    if in_order then\n      local list = list_for(lists, lane, 0)\n",
        "    if in_order and byte(id, 16) % 32 > 0 then\n      local list = list_for(lists, lane, 0)\n",
    ),
    (
        "PromotedInTwoSteps",
        "    if lane < 255 then\n      if lane ~= last_lane then\n",
        "    if lane < 255 and byte(id, 16) % 32 == 0 then\n    elseif lane < 255 then\n      if lane ~= last_lane then\n",
    ),
    (
        "UniqueKeyLeftBehind",
        "  if row.id ~= j.id then return end\n",
        "  do return end\n",
    ),
    // The next enqueue under the key would mend it.
    (
        "UniqueKeyLeftBehind",
        "  if not row['until'] and not is_held_by(j, q, key) then\n",
        "  if false then\n",
    ),
    (
        "EarlyByOneMillisecond",
        "  local now = S.now\n  r = Row.of(r.name)\n",
        "  local now = S.now + 1000\n  r = Row.of(r.name)\n",
    ),
    (
        "TickedTwice",
        "  row.pending = nil -- its end must not find it pending\n",
        "  row.pending = nil\n  \
         Enqueue.one(sub(j.id, 1, 15) .. char((byte(j.id, 16) + 1) % 256), u8(S.now), false, one.s.job, false)\n",
    ),
    (
        "TickLostOnCancel",
        "  local one = pending_of(j)\n  if one then\n",
        "  local one = nil\n  if one then\n",
    ),
    (
        "MissedAllFired",
        "  if due > S.now then return false end\n",
        "  do return false end\n",
    ),
    (
        "MissedAllFired",
        "  if passed <= 0 then return end\n",
        "  do return end\n",
    ),
    (
        "OverlapUnchecked",
        "  local holder = o.u and Unique.holder(j.q, o.u)\n",
        "  local holder = nil\n",
    ),
    (
        "SlotLeftBehind",
        "  r.counts[ACTIVE] = r.counts[ACTIVE] - 1\n  if j.opts.sh then Share.freed(r, j.opts.sh) end\n  \
         if j.opts.li then Named.freed(r, j.opts.li, j.id) end\n  \
         e.a, e.s = (e.a or 0) + 1, p.started\n",
        "  e.a, e.s = (e.a or 0) + 1, p.started\n",
    ),
    (
        "SlotFreedTwice",
        "  e.c = (e.c or 0) + 1\n  Job.add_attempt(j, p, ended, CRASHED)\n",
        "  r.counts[ACTIVE] = r.counts[ACTIVE] - 1\n  \
         e.c = (e.c or 0) + 1\n  Job.add_attempt(j, p, ended, CRASHED)\n",
    ),
    (
        "NamedSlotKept",
        "    row.active = max(0, row.active - 1)\n    if row.running[1]",
        "    if row.running[1]",
    ),
    (
        "WaitingLeftBehind",
        "  if bound then Group.gather(key_of(r), bound.since .. share .. '\\0' .. id, false) end\n",
        "",
    ),
    (
        "GoneStepPassedOver",
        "  if link.skipped then\n    recount(row, link, true)\n",
        "  if false then\n    recount(row, link, true)\n",
    ),
    (
        "NewestAsked",
        "    local j = Job.load(table.remove(row.running, 1))\n",
        "    local j = Job.load(table.remove(row.running))\n",
    ),
    (
        "OneGateIsEnough",
        "  if last then return last end\n  if Named.kept_of(r) == 0 then return nil end\n",
        "  local full = 0\n  \
         for i = 1, #names do if Named.closed(rows[names[i]], units) then full = full + 1 end end\n  \
         if last then return full == #names and last or nil end\n  \
         if Named.kept_of(r) == 0 then return nil end\n",
    ),
    // A job that waits at one limit holds the slots of its others.
    (
        "GatesOneByOne",
        "      if limit then\n        Named.keep_back(r, limit, lane, place)\n",
        "      if limit then\n        \
         for _, name in ipairs(o.li) do\n          \
         if name ~= limit then Named.start(Named.row(name), 1) Named.changes(Named.row(name)) end\n        \
         end\n        \
         Named.keep_back(r, limit, lane, place)\n",
    ),
    (
        "PassNotRaised",
        "local function raised(pass, weight)\n  return pass + floor(TURN / weight)\n",
        "local function raised(pass)\n  return pass\n",
    ),
    (
        "ParkedForgotten",
        "    file_due(r, ':sp:', EXAMINED_MAX)\n",
        "",
    ),
    (
        "TokenAtEnqueue",
        "  if limited then Gate.count(Gate.of(r), n) end\n",
        "",
    ),
    (
        "TokenAtEnqueue",
        "  g.taken = g.taken + n\n  Gate.count(g, n)\n",
        "  g.taken = g.taken + n\n",
    ),
    (
        "TokenAtEnqueue",
        "  local n, chunks = #ids, {}\n  local stamp10 = u8(S.now) .. S.sub\n",
        "  local n, chunks = #ids, {}\n  \
         if r.flags >= 16 then Gate.count(Gate.of(r), n) end\n  \
         local stamp10 = u8(S.now) .. S.sub\n",
    ),
    (
        "WindowAligned",
        "    if last + per > now then break end\n",
        "    if floor(last / per) == floor(now / per) then break end\n",
    ),
    (
        "ClaimedAheadOfLimit",
        "  return min(room, max(0, Gate.slots(call_) - n))\n",
        "  return room\n",
    ),
    (
        "MemoWithoutToken",
        "  if not p then return '\\0' end\n  local deadline",
        "  for _, note_ in ipairs(extend.notes) do\n    \
         local j = note_[4] and Job.load(note_[1])\n    \
         if j then\n      Job.keep(j, note_[4])\n      Job.save(j)\n    end\n  end\n  \
         if not p then return '\\0' end\n  local deadline",
    ),
    (
        "WatchOnlyOnCompleted",
        "  if is_watched then Flow.push('fire', id, state",
        "  if is_watched and state == COMPLETED then Flow.push('fire', id, state",
    ),
    (
        "CountByClient",
        "  if link.role == STEP then\n    local count = class(state, skipped)\n    row.open, row[count], row.changes = max(0, row.open - 1)",
        "  if link.role == STEP and state == COMPLETED then\n    local count = class(state, skipped)\n    row.open, row[count], row.changes = max(0, row.open - 1)",
    ),
    (
        "HalfPlanRuns",
        "  if link.role == STEP then return link.unmet > 0 or not runs end\n",
        "  if link.role == STEP then return link.unmet > 0 end\n",
    ),
    (
        "ClearedBehindAll",
        "    elseif chunk and ends_before(chunk, run.from) or not chunk and #there < NEAR then\n",
        "    elseif true then\n",
    ),
    (
        "KeptAsTheFirst",
        "        if till <= S.now then\n          left, bytes",
        "        if true then\n          left, bytes",
    ),
];

/// The variable that names the bug.
const VARIABLE: &str = "PUNCTUAL_PLANTED";

/// The functions with the bug that the environment names, if it names one of these.
///
/// # Panics
/// If the functions do not have the text once: then the bug is not what it says.
pub(crate) fn inject(functions: String) -> String {
    let Ok(bug) = std::env::var(VARIABLE) else {
        return functions;
    };
    injected(functions, &bug)
}

/// The functions with that bug.
pub(crate) fn injected(mut functions: String, bug: &str) -> String {
    for (_, text, instead) in INJECTED.iter().filter(|(name, ..)| *name == bug) {
        assert_eq!(
            functions.matches(text).count(),
            1,
            "{bug} replaces {text:?}"
        );
        functions = functions.replace(text, instead);
    }
    functions
}

#[cfg(test)]
mod tests;
