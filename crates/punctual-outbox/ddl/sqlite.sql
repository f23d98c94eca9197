-- The outbox of Punctual: a row that commits becomes one job, a row that is rolled back none.
-- Run it once. IF NOT EXISTS would keep the columns of an older table: it stands without.
CREATE TABLE punctual_outbox (
    n       INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of the inserts
    id      TEXT NOT NULL UNIQUE                -- the job's id, a UUID
            CHECK (typeof(id) = 'text' AND length(id) = 36),
    job     TEXT NOT NULL                       -- as in POST /v1/jobs: {"queue":..,"payload":..}
            CHECK (typeof(job) = 'text' AND length(CAST(job AS BLOB)) <= 1048576),
    created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
-- Rows that are no jobs, with the reason.
CREATE TABLE punctual_outbox_refused (
    id      TEXT NOT NULL,
    job     TEXT NOT NULL,
    error   TEXT NOT NULL,
    refused TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
