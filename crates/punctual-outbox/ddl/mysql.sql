-- The outbox of Punctual: a row that commits becomes one job, a row that is rolled back none.
-- Run it once. IF NOT EXISTS would keep the columns of an older table: it stands without.
CREATE TABLE punctual_outbox (
    n       bigint UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, -- roughly the order of the inserts
    id      char(36) CHARACTER SET ascii NOT NULL UNIQUE         -- the job's id: UUID()
            CHECK (length(id) = 36),
    job     longtext CHARACTER SET utf8mb4 NOT NULL              -- as in POST /v1/jobs: {"queue":..,"payload":..}
            CHECK (length(job) <= 1048576),
    created timestamp(6) NOT NULL DEFAULT current_timestamp(6)
) ENGINE = InnoDB;
-- Rows that are no jobs, with the reason.
CREATE TABLE punctual_outbox_refused (
    id      char(36) CHARACTER SET ascii NOT NULL,
    job     longtext CHARACTER SET utf8mb4 NOT NULL,
    error   text CHARACTER SET utf8mb4 NOT NULL,
    refused timestamp(6) NOT NULL DEFAULT current_timestamp(6)
) ENGINE = InnoDB;
-- CALL punctual_enqueue('orders', '{"order":7}', 1800);
CREATE PROCEDURE punctual_enqueue(IN queue varchar(255), IN payload longtext, IN delay_seconds bigint)
    INSERT INTO punctual_outbox (id, job) VALUES (UUID(), JSON_OBJECT(
        'queue', queue, 'payload', JSON_EXTRACT(payload, '$'), 'delay', CONCAT(delay_seconds, 's')));
