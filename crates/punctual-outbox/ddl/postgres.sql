-- The outbox of Punctual: a row that commits becomes one job, a row that is rolled back none.
-- Run it once. IF NOT EXISTS would keep the columns of an older table: it stands without.
CREATE TABLE punctual_outbox (
    id      uuid PRIMARY KEY,                         -- the job's id
    n       bigint GENERATED ALWAYS AS IDENTITY,      -- roughly the order of the inserts
    job     text NOT NULL                             -- as in POST /v1/jobs: {"queue":..,"payload":..}
            CHECK (octet_length(job) <= 1048576),
    created timestamptz NOT NULL DEFAULT now(),
    xid     xid8 NOT NULL DEFAULT pg_current_xact_id() -- the transaction, for --ordered
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX punctual_outbox_n ON punctual_outbox (n);
-- Rows that are no jobs, with the reason.
CREATE TABLE punctual_outbox_refused (
    id      uuid NOT NULL,
    job     text NOT NULL,
    error   text NOT NULL,
    refused timestamptz NOT NULL DEFAULT now()
);
-- SELECT punctual_enqueue('orders', '{"order":7}', delay => '30 minutes', options => '{"unique":"order:7"}');
CREATE FUNCTION punctual_enqueue(queue text, payload jsonb, delay interval DEFAULT NULL, options jsonb DEFAULT '{}')
RETURNS uuid LANGUAGE sql AS $$
    INSERT INTO punctual_outbox (id, job)
    SELECT gen_random_uuid(), (options || jsonb_build_object('queue', queue, 'payload', payload)
        || CASE WHEN delay IS NULL THEN '{}'::jsonb ELSE jsonb_build_object(
               'delay', (extract(epoch FROM delay) * 1000000)::bigint || 'us') END)::text
    RETURNING id
$$;
