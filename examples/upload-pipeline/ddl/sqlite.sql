-- Uploads that began, files, the rows of CSV files, and the bytes that are kept.
CREATE TABLE IF NOT EXISTS uploads (
    id      TEXT PRIMARY KEY,
    state   TEXT NOT NULL,               -- open, stored, duplicate, aborted
    created INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS files (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,           -- csv, png, jpeg
    header      INTEGER NOT NULL,        -- of a CSV: 1 has one, 0 has none, -1 to be found out
    size        INTEGER NOT NULL,
    sha256      TEXT NOT NULL,
    hash        TEXT UNIQUE,             -- the same, until the record expires
    object      TEXT NOT NULL,           -- where the bytes are in the store
    state       TEXT NOT NULL,           -- queued, processing, processed, refused, failed, expired
    reason      TEXT,
    generation  INTEGER NOT NULL,        -- of the result that is wanted
    done        INTEGER NOT NULL,        -- of the result that is there; 0 is none
    fence       INTEGER NOT NULL,        -- of the lease that may write
    byte_offset INTEGER NOT NULL,        -- how far this generation has come
    row_total   INTEGER NOT NULL,
    result      TEXT,
    thumbnail   BLOB,
    job         TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    created     INTEGER NOT NULL,        -- instants are microseconds since 1970
    expires     INTEGER NOT NULL,
    queued      INTEGER,
    started     INTEGER,
    lateness    INTEGER,
    ended       INTEGER
);
CREATE INDEX IF NOT EXISTS files_size ON files (size) WHERE hash IS NOT NULL;
CREATE TABLE IF NOT EXISTS file_rows (
    file       TEXT NOT NULL,
    generation INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    cells      TEXT NOT NULL,
    PRIMARY KEY (file, generation, n)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS totals (
    id    INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL
);
INSERT OR IGNORE INTO totals (id, bytes) VALUES (1, 0);
