-- The read model: what people ask of the ledger in SQL, and the outbox.
--
-- Everything but `projectors` and `outbox` is a projection: it can be thrown away and built again from
-- the ledger's history. So there are no foreign keys and no triggers; what the constraints do is stop a
-- projector that goes wrong instead of letting it show wrong numbers.
--
-- Credits are BIGINT, because no amount of the ledger is above 2^63 - 1; sums of such amounts are NUMERIC.
-- Instants are TIMESTAMPTZ, which counts microseconds as the ledger does. Names compare as bytes.

-- How far each shard's history is projected. Its row is what a projector holds on to while it writes a
-- page: who finds another position there than it expected has been overtaken.
CREATE TABLE projectors (
    shard    TEXT COLLATE "C" PRIMARY KEY,
    -- Everything before this position of the history is in the tables.
    position BIGINT      NOT NULL CHECK (position >= 0),
    -- The latest log time among the projected entries.
    log_time TIMESTAMPTZ NOT NULL
);

CREATE TABLE entries (
    tenant            TEXT COLLATE "C" NOT NULL,
    unit              TEXT COLLATE "C" NOT NULL,
    sequence          BIGINT           NOT NULL,
    epoch             BIGINT           NOT NULL,
    log_time          TIMESTAMPTZ      NOT NULL,
    kind              TEXT             NOT NULL,
    -- [{"bucket": "available", "amount": "-5"}, …]; the amounts add up to zero.
    postings          JSONB            NOT NULL,
    -- How many credits came into buckets by it.
    moved             NUMERIC(39, 0)   NOT NULL,
    operation_id      TEXT             NOT NULL,
    key               TEXT COLLATE "C",
    -- The hold or charge that the entry is about; of a region's, with the entry that opened the allocation.
    hold              BIGINT,
    allocation        BIGINT,
    lot               BIGINT,
    reference         TEXT COLLATE "C",
    actor             TEXT COLLATE "C",
    reason            TEXT,
    request_id        TEXT COLLATE "C",
    metadata          JSONB            NOT NULL,
    prev_hash         BYTEA            NOT NULL,
    hash              BYTEA            NOT NULL,
    -- The bytes that the hash is taken of: the entry whole, as proof.
    entry             BYTEA            NOT NULL,
    CONSTRAINT entries_are_numbered_once PRIMARY KEY (tenant, unit, sequence)
);

CREATE INDEX entries_by_time ON entries (tenant, unit, log_time, sequence);
CREATE INDEX entries_by_hold ON entries (tenant, unit, hold) WHERE hold IS NOT NULL;
CREATE INDEX entries_by_key ON entries (tenant, unit, key) WHERE key IS NOT NULL;

CREATE TABLE accounts (
    tenant                  TEXT COLLATE "C" NOT NULL,
    unit                    TEXT COLLATE "C" NOT NULL,
    status                  TEXT             NOT NULL,
    home                    TEXT             NOT NULL,
    epoch                   BIGINT           NOT NULL,
    opened_at               TIMESTAMPTZ      NOT NULL,
    debt_limit              BIGINT           NOT NULL CHECK (debt_limit >= 0),
    takeback_cap            BIGINT           NOT NULL CHECK (takeback_cap >= 0),
    unacknowledged_max      BIGINT           NOT NULL CHECK (unacknowledged_max >= 0),
    key_retention_micros    NUMERIC(20, 0)   NOT NULL,
    record_retention_micros NUMERIC(20, 0)   NOT NULL,
    -- The entry that this row was last built from. So it is in every table below.
    entry_sequence          BIGINT           NOT NULL,
    PRIMARY KEY (tenant, unit)
);

CREATE TABLE balances (
    tenant     TEXT COLLATE "C" NOT NULL,
    unit       TEXT COLLATE "C" NOT NULL,
    -- As of this entry, the account's last.
    sequence   BIGINT           NOT NULL,
    log_time   TIMESTAMPTZ      NOT NULL,
    hash       BYTEA            NOT NULL,
    granted    BIGINT           NOT NULL CHECK (granted >= 0),
    available  BIGINT           NOT NULL CHECK (available >= 0),
    held       BIGINT           NOT NULL CHECK (held >= 0),
    used       BIGINT           NOT NULL CHECK (used >= 0),
    expired    BIGINT           NOT NULL CHECK (expired >= 0),
    voided     BIGINT           NOT NULL CHECK (voided >= 0),
    debt       BIGINT           NOT NULL CHECK (debt >= 0),
    pending    BIGINT           NOT NULL CHECK (pending >= 0),
    -- The sum over `allocated`, which has it region by region.
    allocated  NUMERIC(39, 0)   NOT NULL CHECK (allocated >= 0),
    -- Lifetime totals: the same credits may pass many times.
    authorized NUMERIC(39, 0)   NOT NULL CHECK (authorized >= 0),
    captured   NUMERIC(39, 0)   NOT NULL CHECK (captured >= 0),
    released   NUMERIC(39, 0)   NOT NULL CHECK (released >= 0),
    refunded   NUMERIC(39, 0)   NOT NULL CHECK (refunded >= 0),
    reclaimed  NUMERIC(39, 0)   NOT NULL CHECK (reclaimed >= 0),
    PRIMARY KEY (tenant, unit),
    CONSTRAINT balances_add_up CHECK (
        granted::NUMERIC + debt = available::NUMERIC + held + used + expired + voided + allocated
    )
) WITH (fillfactor = 70);

CREATE TABLE allocated (
    tenant TEXT COLLATE "C" NOT NULL,
    unit   TEXT COLLATE "C" NOT NULL,
    region TEXT COLLATE "C" NOT NULL,
    amount BIGINT           NOT NULL CHECK (amount > 0),
    PRIMARY KEY (tenant, unit, region)
);

CREATE TABLE lots (
    tenant         TEXT COLLATE "C" NOT NULL,
    unit           TEXT COLLATE "C" NOT NULL,
    -- The sequence of the entry that made it.
    number         BIGINT           NOT NULL,
    amount         BIGINT           NOT NULL CHECK (amount >= 0),
    category       TEXT             NOT NULL,
    priority       SMALLINT         NOT NULL,
    effective_at   TIMESTAMPTZ      NOT NULL,
    -- At this instant it has expired; never, if there is none.
    expires_at     TIMESTAMPTZ,
    source_ref     TEXT COLLATE "C",
    phase          TEXT             NOT NULL,
    waiting        BIGINT           NOT NULL CHECK (waiting >= 0),
    free           BIGINT           NOT NULL CHECK (free >= 0),
    held           BIGINT           NOT NULL CHECK (held >= 0),
    used           BIGINT           NOT NULL CHECK (used >= 0),
    expired        BIGINT           NOT NULL CHECK (expired >= 0),
    voided         BIGINT           NOT NULL CHECK (voided >= 0),
    allocated      BIGINT           NOT NULL CHECK (allocated >= 0),
    entry_sequence BIGINT           NOT NULL,
    PRIMARY KEY (tenant, unit, number),
    -- For ever: a second grant for the same business fact adds nothing.
    CONSTRAINT lots_have_one_source UNIQUE (tenant, unit, source_ref),
    CONSTRAINT lots_add_up CHECK (
        amount = waiting::NUMERIC + free + held + used + expired + voided + allocated
    )
) WITH (fillfactor = 70);

CREATE TABLE holds (
    tenant         TEXT COLLATE "C" NOT NULL,
    unit           TEXT COLLATE "C" NOT NULL,
    -- The entry that opened the allocation under which a region decided it; 0 for home's own.
    allocation     BIGINT           NOT NULL,
    number         BIGINT           NOT NULL,
    region         TEXT COLLATE "C",
    generation     BIGINT,
    kind           TEXT             NOT NULL,
    state          TEXT             NOT NULL,
    amount         BIGINT           NOT NULL CHECK (amount >= 0),
    captured       BIGINT           NOT NULL CHECK (captured >= 0),
    refunded       BIGINT           NOT NULL CHECK (refunded >= 0),
    reclaimed      BIGINT           CHECK (reclaimed >= 0),
    held           BIGINT           NOT NULL CHECK (held >= 0),
    -- What it owes.
    debt           NUMERIC(39, 0)   NOT NULL CHECK (debt >= 0),
    created_at     TIMESTAMPTZ      NOT NULL,
    expires_at     TIMESTAMPTZ      NOT NULL,
    reference      TEXT COLLATE "C",
    -- [{"lot": 1, "amount": "40"}, …]: the lots it was made with. Lot 0 is a region's overdraft.
    lots           JSONB            NOT NULL,
    -- [{"lot": 1, "amount": "25"}, {"debt": 9, "amount": "3"}, …]: what paid and was not given back.
    spent          JSONB            NOT NULL,
    entry_sequence BIGINT           NOT NULL,
    PRIMARY KEY (tenant, unit, allocation, number),
    CONSTRAINT holds_hold_only_while_active CHECK (held = 0 OR state = 'active'),
    CONSTRAINT holds_give_back_what_they_took
        CHECK (captured::NUMERIC + coalesce(reclaimed, 0) >= refunded)
) WITH (fillfactor = 70);

CREATE INDEX holds_by_reference ON holds (tenant, unit, reference) WHERE reference IS NOT NULL;

-- Who decides for an account: home, or a region under an allocation ("eu/3"); and how long it remembers
-- the keys of what it decides from now on.
CREATE TABLE books (
    tenant               TEXT COLLATE "C" NOT NULL,
    unit                 TEXT COLLATE "C" NOT NULL,
    owner                TEXT COLLATE "C" NOT NULL,
    key_retention_micros NUMERIC(20, 0)   NOT NULL,
    PRIMARY KEY (tenant, unit, owner)
);

-- Idempotency keys that are still remembered. A second row under one key is a second effect.
CREATE TABLE keys (
    tenant         TEXT COLLATE "C" NOT NULL,
    unit           TEXT COLLATE "C" NOT NULL,
    owner          TEXT COLLATE "C" NOT NULL,
    key            TEXT COLLATE "C" NOT NULL,
    -- Home's entry that tells of the decision.
    entry_sequence BIGINT           NOT NULL,
    -- From this instant of log time on the key is forgotten.
    ends_at        TIMESTAMPTZ      NOT NULL,
    shard          TEXT COLLATE "C" NOT NULL,
    CONSTRAINT keys_decide_once PRIMARY KEY (tenant, unit, owner, key)
);

CREATE INDEX keys_by_end ON keys (shard, ends_at);

-- Usage events that are still remembered.
CREATE TABLE events (
    tenant         TEXT COLLATE "C" NOT NULL,
    unit           TEXT COLLATE "C" NOT NULL,
    source         TEXT COLLATE "C" NOT NULL,
    id             TEXT COLLATE "C" NOT NULL,
    entry_sequence BIGINT           NOT NULL,
    ends_at        TIMESTAMPTZ      NOT NULL,
    shard          TEXT COLLATE "C" NOT NULL,
    CONSTRAINT events_count_once PRIMARY KEY (tenant, unit, source, id)
);

CREATE INDEX events_by_end ON events (shard, ends_at);

-- An event per entry, in each shard's order. What it says is in `entries`, under the same account and
-- sequence.
CREATE TABLE outbox (
    shard    TEXT COLLATE "C" NOT NULL,
    -- Where the entry stands in the shard's history: one projector writes them, in this order.
    position BIGINT           NOT NULL,
    tenant   TEXT COLLATE "C" NOT NULL,
    unit     TEXT COLLATE "C" NOT NULL,
    epoch    BIGINT           NOT NULL,
    sequence BIGINT           NOT NULL,
    ordinal  INTEGER          NOT NULL,
    kind     TEXT             NOT NULL,
    log_time TIMESTAMPTZ      NOT NULL,
    PRIMARY KEY (shard, position, ordinal),
    CONSTRAINT outbox_publishes_once UNIQUE (tenant, unit, epoch, sequence, ordinal)
);
