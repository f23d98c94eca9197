-- Uploads that began, files, the rows of CSV files, and the bytes that are kept; as in sqlite.sql.
CREATE TABLE IF NOT EXISTS uploads (
    id      char(36) CHARACTER SET ascii NOT NULL PRIMARY KEY,
    state   varchar(16) NOT NULL,
    created bigint NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS files (
    id          char(36) CHARACTER SET ascii NOT NULL PRIMARY KEY,
    name        varchar(255) CHARACTER SET utf8mb4 NOT NULL,
    kind        varchar(16) NOT NULL,
    header      bigint NOT NULL,
    size        bigint NOT NULL,
    sha256      char(64) CHARACTER SET ascii NOT NULL,
    hash        char(64) CHARACTER SET ascii UNIQUE,
    object      varchar(255) CHARACTER SET ascii NOT NULL,
    state       varchar(16) NOT NULL,
    reason      text CHARACTER SET utf8mb4,
    generation  bigint NOT NULL,
    done        bigint NOT NULL,
    fence       bigint NOT NULL,
    byte_offset bigint NOT NULL,
    row_total   bigint NOT NULL,
    result      longtext CHARACTER SET utf8mb4,
    thumbnail   mediumblob,
    job         char(36) CHARACTER SET ascii NOT NULL,
    attempt     bigint NOT NULL,
    created     bigint NOT NULL,
    expires     bigint NOT NULL,
    queued      bigint,
    started     bigint,
    lateness    bigint,
    ended       bigint,
    KEY files_size (size, hash)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS file_rows (
    file       char(36) CHARACTER SET ascii NOT NULL,
    generation bigint NOT NULL,
    n          bigint NOT NULL,
    cells      longtext CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (file, generation, n)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS totals (
    id    bigint NOT NULL PRIMARY KEY,
    bytes bigint NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO totals (id, bytes) VALUES (1, 0);
