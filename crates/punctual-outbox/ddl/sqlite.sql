-- The outbox of Punctual: a row that commits becomes one job, a row that is rolled back none.
CREATE TABLE punctual_outbox (
    n       INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of the inserts
    id      TEXT NOT NULL UNIQUE,               -- the job's id, a UUID
    job     TEXT NOT NULL,                      -- as in POST /v1/jobs: {"queue":..,"payload":..}
    created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
-- Rows that are no jobs, with the reason.
CREATE TABLE punctual_outbox_refused (
    id      TEXT NOT NULL,
    job     TEXT NOT NULL,
    error   TEXT NOT NULL,
    refused TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
