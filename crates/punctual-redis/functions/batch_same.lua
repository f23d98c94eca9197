-- batch_same: jobs of a call that differ from the one before in few things are read fast.
do

-- Where the values of jobs go that differ in that alone.
Enqueue.VALUES = {u = 'keys', g = 'groups', sh = 'shares', ex = 'ends'}

-- Reads the jobs of a call from the i-th on, as far as each differs from the one before only in its
-- value, due, id, hash and payload. Their records begin with `front8`, and have `ext` if they are
-- examined. Answers which one comes next, where it stands, and how many jobs the part has.
function Enqueue.read_same(batch, blob, i, at, shape, kind, given8, front8, ext, due, due8, part, places)
  local ids, kv, dues, dues8, examined, of = batch.ids, batch.kv, batch.dues, batch.dues8, batch.examined, part.at
  local n, size, front, rest, o, name, now = batch.n, #blob, shape.front, shape.rest, shape.opts, shape.name, S.now
  local start, ends, all, head = 39 + shape.start, 38 + shape.start + shape.length, 38 + shape.all, front8 .. due8
  local values, later, held = name and batch[Enqueue.VALUES[name]], part.later and (kind == %DUE_AFTER% or kind == %DUE_AT%), part.held and batch.plain
  while i <= n do
    local length, id, kind_, given8_ = unp('>I4c16Bc8', blob, at)
    local last = at + 3 + length
    if last > size or at + all > last or kind_ ~= kind or sub(blob, at + 39, at + start - 1) ~= front then break end
    if given8_ ~= given8 then
      local given = later and unp('>I8', given8_) or 0
      local due_ = kind == %DUE_AFTER% and now + given or given
      if due_ <= now or due_ >= 9007199254740992 then break end -- that far sums are exact
      given8, due = given8_, due_
      due8 = kind == %DUE_AT% and given8_ or u8(due_)
      head = front8 .. due8
    end
    if values then
      local value = sub(blob, at + start, at + ends)
      if rest ~= '' and sub(blob, at + ends + 1, at + all) ~= rest then break end
      if name == 'ex' then
        local ends_at = at8(value)
        if ends_at <= now or ends_at > %INSTANT_MAX_US% then break end
      elseif find(value, '[^ -~]') then
        break
      end
      values[i] = value
    end
    if held and Enqueue.was_cleared(id, o.w) then break end
    places = places + 1
    ids[i], kv[2 * i - 1], dues[i], dues8[i], of[places] = id, id, due, due8, i
    if ext then
      examined[i], kv[2 * i] = o, head .. sub(blob, at + 29, at + 40) .. ext .. sub(blob, at + 41, last)
    else
      kv[2 * i] = head .. sub(blob, at + 29, last)
    end
    at, i = last + 1, i + 1
  end
  return i, at, places
end

end
