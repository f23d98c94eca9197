-- For `punctual relay outbox --notify`. NOTIFY takes a lock of the whole database at each commit:
-- only where few transactions insert at the same time.
CREATE FUNCTION punctual_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('punctual_outbox', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER punctual_outbox_notify AFTER INSERT ON punctual_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION punctual_outbox_notify();
