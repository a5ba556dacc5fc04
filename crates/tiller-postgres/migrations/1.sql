-- The processes that write sessions. A process renews `seen_at` of its one row, however many
-- sessions it has; other processes may take over the sessions of one that has not done so for long.
CREATE TABLE {schema}.host (
    id text COLLATE "C" PRIMARY KEY,
    program text NOT NULL,
    pid bigint NOT NULL,
    -- The name of the machine.
    name text NOT NULL,
    -- The machine since it was started, and its process namespace: where `pid` means something.
    machine text NOT NULL,
    -- When the operating system started the process, in its own unit.
    process_start text NOT NULL,
    -- Where clients reach it.
    address text,
    started text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE {schema}.session (
    id text COLLATE "C" PRIMARY KEY,
    cwd text NOT NULL,
    -- The first line of the session's file.
    header text NOT NULL,
    parent text,
    name text,
    first_message text,
    -- The number of messages, of lines after the header, and of their bytes.
    messages bigint NOT NULL,
    lines bigint NOT NULL,
    bytes bigint NOT NULL,
    -- Tells the attempts to create it from those of other processes.
    token text NOT NULL,
    -- The process that may write it, and how often that has changed. Every append names the fence,
    -- so a process that was replaced cannot write any more.
    owner text COLLATE "C",
    fence bigint NOT NULL,
    -- When its owner last claimed, wrote or released it.
    seen_at timestamptz NOT NULL,
    modified_at timestamptz NOT NULL,
    -- The minute of `modified_at`. It is indexed in its place: an append then changes no index most
    -- of the time.
    listed_at timestamptz NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX session_listed ON {schema}.session (listed_at DESC);
CREATE INDEX session_of_cwd ON {schema}.session (cwd, listed_at DESC);
CREATE INDEX session_of_owner ON {schema}.session (owner) WHERE owner IS NOT NULL;

-- A line of a session's file. No foreign key: the statement that appends also updates the session's
-- row, and the one that deletes it deletes its entries.
CREATE TABLE {schema}.entry (
    session text COLLATE "C" NOT NULL,
    -- The number of the line; the first one after the header is 0.
    seq bigint NOT NULL,
    id text,
    parent text,
    kind text NOT NULL,
    -- The line, byte for byte, without its line end.
    body text NOT NULL,
    -- The words of a message of the user or the model.
    words tsvector,
    PRIMARY KEY (session, seq)
) PARTITION BY HASH (session);

DO $$
BEGIN
    FOR number IN 0 .. {partitions} - 1 LOOP
        EXECUTE format(
            'CREATE TABLE {schema}.entry_%s PARTITION OF {schema}.entry '
            'FOR VALUES WITH (MODULUS {partitions}, REMAINDER %s)',
            number, number);
    END LOOP;
END $$;

CREATE INDEX entry_words ON {schema}.entry USING gin (words) WHERE words IS NOT NULL;
