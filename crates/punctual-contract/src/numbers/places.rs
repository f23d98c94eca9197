//! Places of fields in bytes that only the functions read: members of sorted sets, rows, cursors.

use super::{Number, bytes, lua};

pub(super) const IDS: &[Number] = &[
    bytes("ID_BYTES", 1, 16, "an id, alone or at the beginning"),
    lua(
        "ID_TAIL_AT",
        13,
        "where its end begins, that ids of one moment differ in",
    ),
    lua("ID_VERSION_AT", 7, "where its version stands"),
    bytes("TOKEN_BYTES", 1, 16, "a token, at the beginning"),
    bytes("TOKEN_SEAL", 1, 12, "what a tombstone keeps of a token"),
    lua("TOKEN_NONCE_AT", 9, "where the nonce of a token begins"),
    bytes("TOKEN_NONCE_START", 9, 12, "the beginning of that nonce"),
    bytes("INSTANT_BYTES", 1, 8, "an instant, at the beginning"),
    lua("BEHIND_INSTANT", 9, "where begins what stands behind it"),
    lua(
        "NEW_ID_TIME_AT",
        3,
        "of an instant in milliseconds: the bytes that a new id has",
    ),
    lua(
        "NEW_ID_VARIANT_AT",
        3,
        "of random bytes: the one beside the variant of a new id",
    ),
    bytes("NEW_ID_REST", 4, 9, "and the rest of that id"),
];

pub(super) const JOB_BYTES: &[Number] = &[
    bytes("UNIFORM_DUE", 2, 9, "of what all jobs share: their due"),
    lua(
        "UNIFORM_PRIORITY_AT",
        10,
        "where their priority stands, and all behind it",
    ),
    lua(
        "UNIFORM_NAME_AT",
        12,
        "where the name of their queue begins",
    ),
    lua(
        "LANE_QUEUE_AT",
        3,
        "of a lane, behind priority and sflags: the length of the name of its queue",
    ),
    lua("LANE_NAME_AT", 4, "where that name begins"),
    bytes("SPEC_HASH", 1, 8, "of a spec: the hash of its content"),
    bytes("SPEC_FRONT", 1, 12, "its hash to its sflags"),
    lua("SPEC_QUEUE_AT", 13, "the length of the name of its queue"),
    lua("SPEC_NAME_AT", 14, "where that name begins"),
    lua(
        "EFFECT_DUE_KIND_AT",
        17,
        "of an effect, behind its id: the kind of its due",
    ),
    bytes("EFFECT_DUE", 18, 25, "its due"),
    lua("EFFECT_SPEC_AT", 26, "where its spec begins"),
    bytes("EFFECT_TO_HASH", 1, 33, "all before its number in its call"),
    lua(
        "EFFECT_PRIORITY_AT",
        36,
        "where begins what stands behind that number",
    ),
    lua("EFFECT_QUEUE_AT", 38, "the length of the name of its queue"),
    lua("EFFECT_NAME_AT", 39, "where that name begins"),
    lua(
        "CLEAR_NAME_AT",
        17,
        "of a clear, behind the id: where the name begins",
    ),
    bytes(
        "HEAD_DURATION",
        1,
        8,
        "of the numbers of a claim: its lease duration",
    ),
    bytes("HEAD_LIMIT", 9, 10, "how many jobs it may have"),
    lua(
        "CANCEL_KEY_AT",
        3,
        "of a cancel, behind flag and length: where queue and key begin",
    ),
];

pub(super) const REPLIES: &[Number] = &[
    lua(
        "REPLY_FORM_AT",
        9,
        "whether all settled, or whether a lease is there",
    ),
    lua(
        "RECEIPT_IS_FULL_AT",
        17,
        "whether a receipt has more than its verdict",
    ),
    lua("RECEIPT_VERDICT_AT", 18, "its verdict"),
    lua("RECEIPT_LATE_AT", 27, "whether it was late"),
    bytes("RECEIPT_OTHER", 28, 43, "the id of another job"),
    lua("VIEW_STATE_AT", 17, "of a view, behind its id: its state"),
    lua(
        "VIEW_RECORD_AT",
        18,
        "where its record begins, if it is not active",
    ),
    lua(
        "VIEW_TOMB_STATE_AT",
        35,
        "where the state of its tombstone stands",
    ),
    bytes("VIEW_WORKER", 18, 33, "else its worker"),
    lua("VIEW_ACTIVE_RECORD_AT", 50, "and where its record begins"),
];

pub(super) const MEMBERS: &[Number] = &[
    bytes(
        "DUE_ENTRY",
        1,
        28,
        "of what waits for its due: what sorts it, and its id",
    ),
    bytes("DUE_ENTRY_ID", 13, 28, "its id"),
    lua("DUE_ENTRY_ID_AT", 13, "where that begins, at the end"),
    lua("DUE_ENTRY_LANE_AT", 29, "its lane"),
    bytes("PLACE_BYTES", 1, 21, "of a place in a lane: what sorts it"),
    lua(
        "PLACE_BEHIND_AT",
        22,
        "where begins what stands behind that",
    ),
    lua("PLACE_ID_AT", 23, "where the id begins"),
    lua("PLACE_MARK_AT", 10, "255 in the place of a group"),
    lua("PLACE_GROUP_AT", 14, "where the key of that group begins"),
    bytes(
        "GROUP_STAMP_START",
        1,
        7,
        "of the stamp of a group that came up: all before that mark",
    ),
    lua(
        "GROUP_STAMP_REST_AT",
        8,
        "where begins what stands behind it",
    ),
    bytes("PLACE_DUE", 2, 9, "of a place in a lane: when it was due"),
    bytes(
        "PLACE_STAMP",
        3,
        9,
        "of the place of a group: the stamp of its job, to the last bytes",
    ),
    bytes("PLACE_STAMP_END", 11, 13, "those"),
    bytes("TURN_PASS", 5, 12, "of the turn of a share: its pass"),
    lua("TURN_SHARE_AT", 13, "where its key begins"),
    lua(
        "ORDER_STATE_AT",
        17,
        "of an order of kept jobs: their state",
    ),
    lua("ORDER_QUEUE_AT", 18, "where the name of their queue begins"),
    lua(
        "ORDER_INSTANT_AT",
        18,
        "of those that finished at one instant: where that begins",
    ),
    lua(
        "ORDER_INSTANT_QUEUE_AT",
        26,
        "and where the name of their queue begins",
    ),
    lua("KEPT_ID_AT", 13, "of a kept job: where its id begins"),
    bytes(
        "WIDE_FIRST_DUE",
        17,
        24,
        "of a lease of several jobs, behind its token: their first due",
    ),
    lua("WIDE_LAST_DUE_AT", 25, "where their last due begins"),
];

pub(super) const ROWS: &[Number] = &[
    bytes(
        "BUNDLE_STAMP",
        1,
        10,
        "of the number of a bundle: its instant, and which write of it",
    ),
    lua("BUNDLE_REST_AT", 11, "where begins what stands behind that"),
    bytes(
        "CHUNK_FIRST_DUE",
        15,
        22,
        "of a chunk that a sweep moved: its first due",
    ),
    bytes("CHUNK_LAST_DUE", 23, 30, "its last due"),
    bytes(
        "TOGETHER_SETTLEMENT",
        1,
        16,
        "of jobs that completed together: attempt and seal",
    ),
    bytes("TOGETHER_NUMBER", 1, 11, "their number"),
    bytes(
        "WORKER_LIMIT",
        9,
        10,
        "of a worker, behind an instant: jobs that it claimed at most",
    ),
    lua(
        "WORKER_RECORD_AT",
        15,
        "where begins what it says of itself",
    ),
    bytes(
        "UNIQUE_FOLLOWER",
        25,
        40,
        "of a unique key, behind holder and instant: its follower",
    ),
    lua(
        "OUTBOX_LENGTH_AT",
        2,
        "of an entry of the outbox: the length of its target",
    ),
    lua("OUTBOX_TARGET_AT", 3, "where that begins"),
    lua(
        "VALUE_KIND_AT",
        9,
        "of a record, behind its version: the kind of its value",
    ),
    lua("VALUE_MAP_AT", 10, "where its settings begin"),
    bytes(
        "LINK_FRONT",
        1,
        4,
        "of a link: version, flags, role, and how it ended",
    ),
    lua("LINK_REST_AT", 5, "where begins what stands behind that"),
    bytes("LINK_ROLE_ENDED", 3, 4, "its role, and how it ended"),
    bytes(
        "LINK_WAITS",
        9,
        16,
        "how many it waits for, and how many of those can come no more",
    ),
    bytes(
        "ALONE_HEAD",
        1,
        34,
        "of a share of one job that waits: all before its place",
    ),
    lua("ALONE_PLACE_AT", 35, "where that place begins"),
    lua("ALONE_MARK_AT", 44, "255 if it is that of a group"),
    lua("ALONE_ID_AT", 57, "where the id begins"),
    lua(
        "PLACE_ENQUEUE_AT",
        9,
        "of a place in line: where its stamp and index begin, behind the due",
    ),
    bytes(
        "GROUP_ALONE_ID",
        3,
        18,
        "of a group of one ready job: its id",
    ),
    lua(
        "GROUP_KNOWN_AT",
        7,
        "of one of several: how many of them its row knows",
    ),
    bytes("GROUP_FIRST", 8, 23, "the id of the first"),
    lua("GROUP_REST_AT", 24, "where those of the others begin"),
    bytes(
        "GROUP_RUNNING",
        1,
        19,
        "of one with an active job: that it has one, and which",
    ),
    lua(
        "GROUP_LINE_AT",
        21,
        "of it: where its only line begins, behind the priority",
    ),
    bytes(
        "RUNNING_HEAD",
        1,
        6,
        "of a share of jobs that run: version to their number",
    ),
    lua(
        "BOUND_STATE_AT",
        13,
        "of the bound of a share: what is being counted",
    ),
    lua("BOUND_PLACE_AT", 14, "where the count goes on"),
    lua(
        "LIMITS_CHECK_AT",
        10,
        "of the state of named limits: where begins what is to be checked",
    ),
    lua(
        "GATE_PARTS_AT",
        21,
        "of what a rate has counted: where the parts of its window begin",
    ),
    bytes(
        "RUN_FRONT",
        1,
        8,
        "of the id of a run: what no instant changes",
    ),
    lua("RUN_MIDDLE_AT", 9, "its version"),
    lua(
        "RUN_LOW_AT",
        10,
        "its variant, and the first bits of the instant",
    ),
    lua(
        "RUN_REST_AT",
        3,
        "of an instant: the bytes that an id of a run has as they are",
    ),
];

pub(super) const CURSORS: &[Number] = &[
    bytes(
        "PURGE_BEGAN",
        2,
        11,
        "of a purge, behind a state: when it began",
    ),
    lua("PURGE_PLACE_AT", 12, "where it goes on"),
];

pub(super) const PREFIXES: &[Number] = &[
    bytes("RECORD_QUEUE", 1, 6, "`queue/`"),
    lua("RECORD_QUEUE_NAME_AT", 7, "behind `queue/`"),
    bytes("RECORD_LIMIT", 1, 6, "`limit/`"),
    lua("RECORD_LIMIT_NAME_AT", 7, "behind `limit/`"),
    bytes("RECORD_SCHEDULE", 1, 9, "`schedule/`"),
    lua("RECORD_SCHEDULE_NAME_AT", 10, "behind `schedule/`"),
];
